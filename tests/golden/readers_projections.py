"""``readers.json``: titles, small projections, subagents, references, pairing, injected context and
documents; and the small cases of ``reader_cases.json``.

Where the reference threw (``error``) nothing is compared, but ours has to have an answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from operators.events import UserMessage
from operators.readers import (
    answers,
    documents,
    filters,
    injected,
    lineage,
    pairing,
    references,
    titles,
)
from operators.readers.references import Item, Subject
from pipeline.readers import query
from pipeline.readers.logs import Log
from tests.golden import classification
from tests.golden.differences import Difference
from tests.golden.values import ABSENT, Finding, check, same, settle
from tests.operators.readers.playing import Playing, play

Node = dict[str, Any]
KEYS = (
    *("title", "sessionListMetadata", "goal", "todos", "plan", "permissions", "subagentTiming"),
    *("subagentIdentity", "reference", "toolPairing", "documents", "injected"),
)
_CORRUPT = re.compile(r"at surface seq (\d+) has no matching tool-call")
#: Where ours is another value on purpose, by number; each is asserted where it is met.
DIFFERENCES = {
    101: Difference(
        101,
        "a descriptor of version 3 is one, whatever log it stands in",
        "_fold: the case's own identity",
    ),
    102: Difference(
        102,
        "sessions of one age are in the order of their ids by code point, not by locale",
        "_lineage: descendants sorted here once more",
    ),
}
LABEL = "L"  #: of every golden quotation
LONG = 400  #: characters of a text that golden files keep whole


def compare(golden: Node, lines: Iterable[bytes]) -> list[Finding]:
    """Every key of ``readers.json`` that is here, against the log's lines without their header."""
    played = play(lines)
    answered = answers.reference(played.rooms, played.told())
    found: list[Finding] = []
    for key in KEYS:
        if key not in golden:
            continue
        told = golden[key]
        if isinstance(told, dict) and "error" in told:
            found += _corrupt(told["error"], played) if key == "toolPairing" else []
            continue
        ours = _ours(key, played, answered, golden)
        found += _compared(key, told, ours)
    return found


def compare_traces(golden: Node, path: Path) -> list[Finding]:
    """The event traces of ``classification.json`` against the query's, of a log's file."""
    log = Log().read_file(path)
    found: list[Finding] = []
    for told in golden.get("traces", []):
        made = query.trace(log, told["seq"])
        assert made is not None
        ours = {
            "surface": made.surface,
            "replacedBy": made.replaced_by,
            "replacementChain": list(made.chain),
            "replacedEventSeqs": list(made.replaced),
        }
        found += check(f"R trace {told['seq']}", classification.view(told), ours)
    return found


def keys(golden: Node) -> list[str]:
    """Those that are compared."""
    told = {key: golden[key] for key in KEYS if key in golden}
    return [k for k, v in told.items() if not (isinstance(v, dict) and "error" in v)]


def _compared(key: str, told: Any, ours: Any) -> list[Finding]:
    if key == "reference":
        told = {b: told[r["sameAs"]] if r and "sameAs" in r else r for b, r in told.items()}
    if key in ("reference", "documents"):
        told = _alike(told)
    if key == "goal":
        return check("R goal", told["value"], ours["value"])
    if key == "title":
        return check("R title", told, {name: ours.get(name) for name in told})
    if key == "subagentTiming" and "lastTurnCompleted" not in told and isinstance(ours, dict):
        ours = {name: value for name, value in ours.items() if name != "lastTurnCompleted"}
    return check(f"R {key}", told, ours)


def _alike(value: Any) -> Any:
    """Golden texts, which are told in three ways, in one."""
    if isinstance(value, str):
        return long(value)
    if isinstance(value, list):
        return [_alike(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "chars" in value and "sha256" in value:
        return {**{k: v for k, v in value.items() if k != "chars"}, "len": value["chars"]}
    return {name: _alike(item) for name, item in value.items()}


def _corrupt(error: str, played: Playing) -> list[Finding]:
    """Where the reference names the node at which a surface is corrupt, ours is the same."""
    named = _CORRUPT.search(error)
    if named is None:
        return []
    ours = pairing.cuts(played.surface()).corrupt
    return check("R toolPairing", int(named[1]), ours)


def _ours(key: str, played: Playing, ours: Node, golden: Node) -> Any:
    """A key's value, told as golden files tell it."""
    if key == "reference":
        session = golden["session"]
        return {
            budget: reference(played, session["id"], session["cwd"], int(budget))
            for budget in golden["reference"]
        }
    if key == "documents":
        return [[seq, mark, long(text)] for seq, mark, text in ours[key]]
    return ours[key]


# --- ours, in the golden files' shapes ------------------------------------------------------------


def quote(played: Playing, session: str, cwd: str | None, label: str, budget: int) -> Any:
    events = played.events
    through = played.session.next_seq - 1 if events else None
    nodes = [played.messages[node.seq] for node in played.surface()]
    return references.reference(nodes, Subject(session, label, cwd, through), budget)


def reference(played: Playing, session: str, cwd: str | None, budget: int) -> Node | None:
    made = quote(played, session, cwd, LABEL, budget)
    return None if made is None else summary(made)


def summary(made: references.Reference) -> Node:
    data = made.data.encode()
    stats = {
        name: getattr(made.stats, field)
        for field, name in zip(
            made.stats.__struct_fields__, made.stats.__struct_encode_fields__, strict=True
        )
    }
    conversation = json.loads(made.data)["conversation"]
    return {
        "bytes": made.bytes,
        "sha256": hashlib.sha256(data).hexdigest(),
        "stats": stats,
        "conversation": [{**each, "text": long(each["text"])} for each in conversation],
    }


def runtime(played: Playing) -> Any:
    """The runtime context with its text, as the small cases tell it."""
    found = answers.runtime_context(played.rooms, played.events)
    if not isinstance(found, dict):
        return found
    event = next(e for e in played.events if e.seq == found["seq"])
    assert isinstance(event.body, UserMessage)
    text = injected.runtime_text(event.body)
    digest = None if text is None else hashlib.sha256(text.encode()).hexdigest()
    assert found.get("sha256") == digest
    return {"seq": event.seq, "text": text}


def units(text: str) -> int:
    """Length as JavaScript counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def long(text: str) -> Any:
    """A long text as golden files tell it."""
    if units(text) <= LONG:
        return text
    data = text.encode("utf-8", "replace")
    head = text.encode("utf-16-le", "surrogatepass")[:240].decode("utf-16-le", "surrogatepass")
    digest = hashlib.sha256(data).hexdigest()
    return {"len": units(text), "bytes": len(data), "sha256": digest, "head": head}


# --- reader_cases.json ----------------------------------------------------------------------------


def compare_cases(cases: Node) -> Mapping[str, list[Finding]]:
    """Findings by the name of each small case."""
    found: dict[str, list[Finding]] = {}
    for case in cases["folds"]:
        found[f"folds/{case['name']}"] = _fold(case)
    for case in cases["lineage"]:
        found[f"lineage/{case['name']}"] = _lineage(case)
    for n, case in enumerate(cases["sessionFilters"]["cases"]):
        found[f"sessionFilters/{n}"] = _sessions(cases["sessionFilters"]["sessions"], case)
    found["documents"], searched = _documents(cases["documents"])
    for n, findings in enumerate(searched):
        found[f"filters/{n}"] = findings
    told = cases["fallbackTitles"]
    for n, (text, right) in enumerate(told["cases"]):
        ours = titles.fallback(text, told["maxWords"], told["maxBytes"])
        found[f"fallbackTitles/{n}"] = check(f"R fallback {text!r}", right, ours)
    for case in cases["retention"]:
        found[f"retention/{case['name']}"] = _retention(case)
    return found


def _fold(case: Node) -> list[Finding]:
    played = play(json.dumps(event).encode() for event in case["events"])
    ours = answers.reference(played.rooms, played.told())
    ours = {name: value for name, value in ours.items() if name in case}
    ours |= {"goal": played.rooms["goal"].reference(), "runtimeContext": runtime(played)}
    made = played.rooms["injected"].value().instructions
    ours["instructions"] = [answers.change(each) for each in made]
    ours["title"] = {name: ours["title"].get(name) for name in case["title"]}
    ours["subagentTiming"].pop("lastTurnCompleted", None)
    found: list[Finding] = []
    for name, value in ours.items():
        if not (isinstance(case[name], dict) and "error" in case[name]):
            reason, right = _expected(case, name)
            found += settle(f"R {name}", case[name], value, right, reason)
    return found


def _expected(case: Node, name: str) -> tuple[int | None, Any]:
    """Why a value of a small case may be ours, and what it is then."""
    if name == "subagentIdentity" and case["name"] == "subagent_unknown_version":
        return 101, {"mode": "one-shot", "seq": 1}
    return None, ABSENT


def record(header: Node, **told: bool) -> lineage.SessionRecord:
    return lineage.SessionRecord(
        header["id"],
        header.get("createdAt"),
        header.get("cwd"),
        header.get("parentSession"),
        header.get("version"),
        header.get("origin"),
        header.get("seedLength"),
        header.get("delegationDepth"),
        **told,
    )


def _lineage(case: Node) -> list[Finding]:
    family = lineage.Family(map(record, case["sessions"]))
    found: list[Finding] = []
    for target, right in case["traces"].items():
        made = family.lineage(target)
        where = f"R lineage of {target!r}"
        if "error" in right:
            if right["code"] == "SESSION_QUERY_SESSION_NOT_FOUND":
                found += check(where, None, made)
            else:  # ours is a result
                cycle = right["error"].rpartition(" at ")[2]
                found += check(where, cycle, json.dumps(made and made.cycle_at))
            continue
        assert made is not None
        ours = {
            "ancestors": [kin.id for kin in made.ancestors],
            "descendants": tree(made.descendants),
            "complete": made.complete,
        }
        ours |= {"root": made.root} if made.root is not None else {}
        ours |= {"unresolvedParentId": made.unresolved} if made.unresolved is not None else {}
        if "descendants" in right and not same(right, ours):
            children = [s for s in case["sessions"] if s.get("parentSession") == target]
            order = sorted(children, key=lambda s: (s["createdAt"], s["id"]))
            own = {**right, "descendants": [{"id": s["id"]} for s in order]}
            found += settle(where, right, ours, own, 102)
            continue
        found += check(where, right, ours)
    return found


def tree(kin: Iterable[lineage.Kin]) -> list[Node]:
    """Descendants as the reference nests them."""
    top: list[Node] = []
    levels = [top]  # of every depth the list that is being filled
    for each in kin:
        del levels[each.depth :]
        below: list[Node] = []
        levels[-1].append({"id": each.id, "descendants": below})
        levels.append(below)
    return _pruned(top)


def _pruned(nodes: list[Node]) -> list[Node]:
    return [
        {"id": node["id"]}
        | ({"descendants": below} if (below := _pruned(node["descendants"])) else {})
        for node in nodes
    ]


def _sessions(sessions: list[Node], case: Node) -> list[Finding]:
    where = f"R sessions {json.dumps(case['filters'])}"
    try:
        test = filters.session_filter(case["filters"])
    except filters.FilterError as error:
        return check(where, "error" in case["ids"], bool(str(error)))
    records = [
        record(each["header"], live=each["live"], persisted=each["persisted"]) for each in sessions
    ]
    return check(where, case["ids"], [each.id for each in records if test(each)])


def _documents(told: Node) -> tuple[list[Finding], list[list[Finding]]]:
    played = play(json.dumps(event).encode() for event in told["events"])
    made = list(documents.documents(played.events, played.mark))
    found = check("R documents", told["documents"], answers.search_texts(played.told()))
    searched = []
    for case in told["filters"]:
        where = f"R events {json.dumps(case['filters'])}"
        try:
            test = filters.event_filter(case["filters"])
        except filters.FilterError:
            searched.append(check(where, True, "error" in case["seqs"]))
            continue
        searched.append(check(where, case["seqs"], [each.seq for each in made if test(each)]))
    return found, searched


def _retention(case: Node) -> list[Finding]:
    roles = {"u": ("user", False), "a": ("assistant", False), "c": ("user", True)}
    items = []
    for letter, text in case["items"]:
        if letter in roles and text:
            role, checkpoint = roles[letter]
            items.append(Item(role, text, checkpoint))
    found: list[Finding] = []
    through = len(case["items"]) - 1 if case["items"] else None
    for budget, right in case["results"].items():
        made = references.retain(items, Subject("src", "l", None, through), int(budget))
        found += check(f"R retention {budget}", right, _told(made))
    return found


def _told(made: references.Reference | None) -> Node | None:
    if made is None:
        return None
    told = summary(made)
    letters = {"user": "u", "assistant": "a"}
    whole = json.loads(made.data)["conversation"]
    conversation = [[letters[each["role"]], each["text"]] for each in whole]
    return {"bytes": told["bytes"], "stats": told["stats"], "conversation": conversation}
