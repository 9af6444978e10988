"""The small readers as they are shown where a log's events are at hand: the reference's under its
own names (``readers.json``, readers.md §13), ours beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from operators.events import Event, UserMessage
from operators.nodes import Node

from .documents import CURRENT, LOG_ONLY, SHADOWED, documents
from .injected import Change, liveness, runtime_text
from .javascript import units
from .pairing import cuts
from .projections import Projections
from .text import encoded
from .titles import eligible_seqs


class Told(Struct, frozen=True):
    """A folded log: the events that were taken, the nodes in surface order (with the number of
    calls in those of answers), and which replacement shadowed which seq."""

    events: Sequence[Event]
    nodes: Sequence[Node]
    shadowed_by: Mapping[int, int]
    last_time: int | None

    def marks(self) -> Mapping[int, str]:
        """What the seqs that ever were nodes are now."""
        found = dict.fromkeys(self.shadowed_by, SHADOWED)
        return found | dict.fromkeys((node.seq for node in self.nodes), CURRENT)


def reference(small: Projections, told: Told) -> dict[str, Any]:
    """The reference's figures; of a log that ``small`` has read as a whole."""
    found = small.reference(told.last_time)
    found["title"]["eligible"] = eligible_seqs(told.events)
    found["goal"] = {"value": found["goal"]}
    found["toolPairing"] = tool_pairing(told)
    found["documents"] = search_texts(told)
    found["injected"] = injected(small, told)
    return found


def own(small: Projections, told: Told) -> dict[str, Any]:
    """Ours: of the session's own part, and what the reference does not tell."""
    values, corrupt = small.values(told.last_time), cuts(told.nodes).corrupt
    title = values.title
    return {
        "derived_title": title.derived,
        "subagent": values.subagent,
        "pairing": {**asdict(values.pairing), "corrupt": corrupt},
        "contexts": _liveness(told),
    }


def tool_pairing(told: Told) -> dict[str, Any] | None:
    """A 0 or 1 per node and side; None on a corrupt surface."""
    found = cuts(told.nodes)
    if found.before is None or found.after is None:
        return None
    before, after = ("".join("01"[cut] for cut in side) for side in (found.before, found.after))
    return {"nodes": len(told.nodes), "before": before, "after": after}


def search_texts(told: Told) -> list[list[Any]]:
    """``[seq, class, text]`` of every document."""
    marks = told.marks()
    found = documents(told.events, lambda seq: marks.get(seq, LOG_ONLY))
    return [[each.seq, each.surface, each.text] for each in found]


def _liveness(told: Told) -> list[Any]:
    return liveness(told.events, (node.seq for node in told.nodes), told.shadowed_by)


def injected(small: Projections, told: Told) -> dict[str, Any]:
    listed = []
    for each in _liveness(told):
        said = {"kind": each.kind, "plugin": each.plugin, "form": each.form}
        alive = each.state != "shadowed"
        listed.append({"seq": each.seq, **_given(said), "op": each.op, "current": alive})
    return {
        "contexts": listed,
        "runtimeContext": runtime_context(small, told.events),
        "instructions": [change(each) for each in small["injected"].value().instructions],
    }


def runtime_context(small: Projections, events: Sequence[Event]) -> Any:
    """Digest and length of the one in force; ``none``: there never was one, None: none is left."""
    value = small["injected"].value()
    if value.runtime_context is None:
        return None if value.runtime_told else "none"
    event = next((each for each in events if each.seq == value.runtime_context), None)
    text = None
    if event is not None and isinstance(event.body, UserMessage):
        text = runtime_text(event.body)
    if text is None:
        return {"seq": value.runtime_context, "text": None}
    digest = sha256(encoded(text)).hexdigest()
    return {"seq": value.runtime_context, "sha256": digest, "len": units(text)}


def change(each: Change) -> dict[str, Any]:
    return _given(asdict(each))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What is absent is absent, not null."""
    return {name: value for name, value in fields.items() if value is not None}
