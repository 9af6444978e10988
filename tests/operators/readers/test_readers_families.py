"""Usage of a family (parent, forks, their forks, subagents) is the sum of its members' own parts.

Public faults that these would have caught, each played in ``naive_figures.FAULTS`` and shown to
give another sum: an inherited prefix counted again in every fork (stablyai/orca#19139: five times
the real total), usage summed over every report of a step (ccusage/ccusage#389, #976,
jhlee0409/claude-code-history-viewer#283) or taken from its first one (ccusage#901, #938,
claude-code-history-viewer#575), a retried attempt that is billed and lost
(NousResearch/hermes-agent#74313, sjnims/cc-plugin-eval#330); and a parent shown without its
children (codeready-toolchain/tarsy#254).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import pytest
from msgspec import Struct
from msgspec.structs import replace

from operators.changes import UsageData
from operators.events import Usage
from operators.readers.lineage import Family
from operators.readers.usage import Billed
from operators.readers.values import own_part
from operators.session import Session
from pipeline.readers.costs import Routes, cost, folded, total
from pipeline.readers.sessions import of_header
from pipeline.simulate import FEATURES, SHAPES, simulate
from tests.operators.readers import naive_figures as naive
from tests.operators.readers.figuring import figure

FAMILIES = 1_000
GROUPS = 10
PARENT = "parent"
ALONE = "a parent without its children (tarsy#254)"
#: Of what a session does, all but what makes its logs unlike any that a harness writes.
TAME = FEATURES - {"forks", "fork-anywhere", "hostile", "long"}


class Member(Struct, frozen=True):
    """``start``: first seq of the own part."""

    lines: list[bytes]
    start: int = 0


def family(number: int) -> list[Member]:
    """A parent, one or two forks of it that went on by themselves, perhaps a fork of the last of
    them that did nothing yet, up to two subagents."""
    dice, shape = Random(number), SHAPES[number % len(SHAPES)]
    whole = simulate(number, events=60, shape=shape, features=TAME).lines
    header, rows = json.dumps(json.loads(whole[0]) | {"id": PARENT}).encode(), whole[1:]
    parent = rows[: dice.randint(len(rows) // 3, len(rows))]
    members = [Member([header, *parent])]
    for child in range(dice.randint(1, 2)):
        rest = rows[: dice.randint(len(parent) // 2, len(rows))]
        cut = dice.randint(1, len(rest))
        end = _after(rest[-1])
        start = _first(rest[cut]) if cut < len(rest) else end
        rest += retried(end, child) if dice.random() < 0.5 else []
        members.append(child_of(PARENT, f"fork-{child}", header, rest, start))
    if dice.random() < 0.5:
        rest = members[-1].lines[1:]
        members.append(child_of(f"fork-{child}", "grandchild", header, rest, _after(rest[-1])))
    for child in range(dice.randint(0, 2)):
        made = simulate(number + 7_000_000 + child, events=30, shape=shape, features=TAME)
        own = {"id": f"agent-{child}", "parentSession": PARENT, "origin": "subagent"}
        told = json.loads(made.lines[0]) | own
        members.append(Member([json.dumps(told).encode(), *made.lines[1:]]))
    return members


def child_of(parent: str, name: str, header: bytes, rows: list[bytes], start: int) -> Member:
    told = json.loads(header) | {"id": name, "parentSession": parent, "seedLength": start}
    return Member([json.dumps(told).encode(), *rows], start)


def retried(first: int, number: int) -> list[bytes]:
    """A turn whose stream reports usage twice, fails, and is retried: two attempts are billed."""
    place = {"turn": 9_000, "step": 1}

    def usage(tokens: int) -> dict[str, int]:
        return {"inputTokens": 100 + number, "outputTokens": tokens}

    def reported(tokens: int) -> tuple[str, dict[str, object]]:
        return "assistant/chunk", place | {"chunk": {"type": "usage", "usage": usage(tokens)}}

    retry = place | {"retryId": f"again-{first}", "retry": 1}
    text = [{"type": "text", "text": "done"}]
    message = {"id": f"late-{first}", "role": "assistant", "content": text}
    rows: list[tuple[str, dict[str, object]]] = [
        ("turn/start", {"turn": 9_000}),
        ("step/start", dict(place)),
        reported(1),
        reported(7),
        ("llm/retry", retry | {"maxRetries": 3, "delayMs": 0, "failure": {"message": "busy"}}),
        ("llm/retry-started", dict(retry)),
        reported(2),
        ("assistant/message", place | {"message": message, "usage": usage(9)}),
        ("step/end", dict(place)),
        ("turn/end", {"turn": 9_000, "reason": {"kind": "completed"}}),
    ]
    lines = []
    for at, (kind, data) in enumerate(rows):
        row = {"type": kind, "seq": first + at, "time": 1_800_000_000_000 + at, "data": data}
        append = {"surfaceOp": "append"} if kind == "assistant/message" else {}
        lines.append(json.dumps(row | append).encode())
    return lines


def _first(row: bytes) -> int:
    told = json.loads(row)
    return int(told.get("seq0", told.get("seq")))


def _after(row: bytes) -> int:
    told = json.loads(row)
    texts = told.get("data", {}).get("texts", told.get("data", {}).get("args", [0]))
    return _first(row) + (len(texts) if "seq0" in told else 1)


def families(group: int) -> Iterator[list[Member]]:
    return map(family, range(group, FAMILIES, GROUPS))


def counts(usage: Usage) -> naive.Counts:
    return usage.uncached_input, usage.output, usage.cache_read, usage.cache_write


def published(usage: UsageData) -> naive.Counts:
    """As the overview shows it."""
    return usage.uncached_input, usage.output, usage.cache_read, usage.cache_write


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_family_is_the_sum_of_its_own_parts(group: int) -> None:
    caught = dict.fromkeys((*naive.FAULTS, ALONE), 0)
    for members in families(group):
        found = [naive.samples(member.lines) for member in members]
        own = [naive.own_part(f, m.start) for f, m in zip(found, members, strict=True)]
        figured = [figure(member.lines).session for member in members]
        for session, part, member in zip(figured, own, members, strict=True):
            routes = [counts(row.usage) for _, row in own_part(session).billing.table()]
            assert naive.total(routes) == part, member.lines[0]
            assert published(session.overview().usage) == part
        assert whole_family(figured) == naive.total(own)
        starts = [member.start for member in members]
        for name, fault in naive.FAULTS.items():
            wrong = naive.total(map(fault, found, starts))
            caught[name] += wrong != naive.total(own)
        caught[ALONE] += own[0] != naive.total(own)
    assert min(caught.values()) > 0, caught  # each fault shows in some family


def whole_family(members: list[Session]) -> naive.Counts:
    """What the cost report says of the parent and all that come from it; compactions left out."""
    records = {}
    for session in members:
        assert session.header is not None
        records[session.header.session or ""] = of_header("", session.header), session
    lineage = Family(replace(r, id=i) for i, (r, _) in records.items()).lineage(PARENT)
    assert lineage is not None
    kin = [PARENT, *(each.id for each in lineage.descendants)]
    assert set(kin) == set(records)
    spent = [cost(records[each][0], None, billed(records[each][1]), None) for each in kin]
    usages = [route.usage for route in total(spent, None).routes]
    return naive.total(map(published, usages))


def billed(session: Session) -> Routes:
    return [(route, Billed(row.usage)) for route, row in folded(session)]


def test_a_fork_counts_nothing_of_its_prefix() -> None:
    """A fork that did nothing yet has no usage, no turns, no time and no lost context."""
    log = simulate(5, events=120, shape="v4", features=TAME).lines
    start = _after(log[-1])
    told = json.loads(log[0]) | {"parentSession": "p", "seedLength": start}
    more = {"type": "turn/start", "seq": start, "time": 1, "data": {"turn": 900}}
    child = [json.dumps(told).encode(), *log[1:], json.dumps(more).encode()]
    forked, whole = figure(child), figure(log)
    readers, parent = forked.readers, whole.readers
    assert readers.billing.table() == []
    assert readers.tokens.total == Usage()
    assert readers.statistics.times == type(readers.statistics.times)()
    assert not readers.losses.sums
    assert forked.session.surface.tokens == whole.session.surface.tokens  # it is inherited
    assert parent.billing.table()
