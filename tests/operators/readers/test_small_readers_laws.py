"""The laws for the small readers: no input makes one raise, and where a log is cut into batches,
sent again, saved and restored does not show."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from immutables import Map

from operators.events import Event, Line
from operators.readers import documents, injected, pairing, references, titles
from operators.readers.injected import Context, Counts, Injected
from operators.readers.references import Subject
from operators.surface import Node
from operators.table import Table
from tests.operators.readers.hostile import logs
from tests.operators.readers.playing import ROOMS, Playing, read
from tests.strategies import any_logs, splits

encode = msgspec.json.Encoder().encode
reads = st.one_of(logs, any_logs).map(lambda log: [read(line) for line in log])


def seen(played: Playing) -> bytes:
    """All values as JSON, the quality facts among them."""
    return encode([played.values(), played.quality])


def saved(room: Any) -> Any:
    """The room through the bytes of a snapshot."""
    if not isinstance(room, Injected):
        state = room.saved()
        kind = type(room.EMPTY)
        told = None if state is None else msgspec.json.decode(encode(state), type=kind)
        return type(room).restored(told)
    rows = [room.living[key] for key in room.living]
    back = msgspec.json.decode(encode(rows), type=list[Context])
    counts = msgspec.json.decode(encode(room.saved()), type=Counts)
    return Injected.restored(counts, Table(Map({row.key: row for row in back})))


@given(reads)
def test_no_input_raises(lines: list[Line]) -> None:
    """Not in the rooms and not in what is computed where the events are."""
    played = Playing().take_all(lines)
    assert seen(played)
    for room in played.rooms.values():
        if hasattr(room, "reference") and room is not played.rooms["timing"]:
            room.reference()
    assert all(each.text for each in documents.documents(played.events, played.mark))
    pairing.cuts(played.surface())
    every = injected.liveness(played.events, played.nodes, played.shadowed_by)
    assert {each.seq for each in every if each.state != "shadowed"} == set(
        played.rooms["injected"].living
    )
    titles.eligible_seqs(played.events)
    nodes = [played.messages[node.seq] for node in played.surface()]
    for budget in (0, 90, 300, 5000):
        made = references.reference(nodes, Subject("s", "<l>", "/w", 3), budget)
        assert made is None or made.bytes <= budget


@given(reads, st.data())
def test_batches_do_not_show(lines: list[Line], data: st.DataObject) -> None:
    whole = Playing().take_all(lines)
    state = Playing()
    for batch in data.draw(splits(lines), label="batches"):
        before = seen(state)
        staged = state.fork().take_all(batch)
        assert seen(state) == before, "a batch that was not kept left a trace"
        state = staged
    assert seen(state) == seen(whole)


@given(reads, st.data())
def test_redelivery_is_silent(lines: list[Line], data: st.DataObject) -> None:
    state = Playing()
    took = []
    for line in lines:
        before = state.session.next_seq
        state.take(line)
        if isinstance(line, Event) and line.seq >= before:
            took.append(line)
    before_all = seen(state)
    first = data.draw(st.integers(0, len(took)), label="first")
    assert seen(state.take_all(took[first:])) == before_all


@given(reads, st.data())
def test_snapshot_then_tail(lines: list[Line], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(lines)), label="prefix")
    state = Playing().take_all(lines[:cut])
    restored = state.fork()
    restored.rooms = {name: saved(room) for name, room in state.rooms.items()}
    assert seen(restored) == seen(state)
    assert seen(restored.take_all(lines[cut:])) == seen(state.take_all(lines[cut:]))


@given(reads, st.data())
def test_a_fork_begins_with_its_own(lines: list[Line], data: st.DataObject) -> None:
    """What counts events counts the own ones; what belongs to the surface stays."""
    at = data.draw(st.integers(0, len(lines)), label="cut")
    state = Playing().take_all(lines[:at])
    inherited = {name: state.rooms[name].value() for name in ("pairing", "injected")}
    state.rooms = {name: room.cut() for name, room in state.rooms.items()}
    assert inherited == {name: state.rooms[name].value() for name in inherited}
    empty = {name: room() for name, (room, _) in ROOMS.items()}
    for name in ("title", "listing", "goal", "todos", "plan", "permissions"):
        assert state.rooms[name].value() == empty[name].value()
    identity = state.rooms["identity"].value()
    assert identity is None or not identity.own


# --- law 10 ---------------------------------------------------------------------------------------


def lines_executed(call: Callable[[], object]) -> int:
    count = 0

    def local(_frame: object, event: str, _arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return local

    before = sys.gettrace()
    sys.settrace(lambda frame, _event, _arg: local if _is_ours(frame) else None)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def _is_ours(frame: FrameType) -> bool:
    """Not the collector's callbacks and other guests."""
    return frame.f_globals.get("__name__", "").startswith("operators.")


def events(count: int) -> Iterable[Line]:
    """Every kind of event that a reader takes, over and over, nothing ever shadowed."""
    kinds: list[tuple[str, Any]] = [
        ("turn/start", {"turn": 1}),
        ("todo/write", {"todos": [{"content": "a", "status": "pending"}]}),
        ("session/title", {"title": "t"}),
        ("user/message", _message({"kind": "user"})),
        ("user/message", _message({"kind": "plugin", "plugin": "@a/b-system-prompt"})),
        ("user/message", _message(_instructions)),
        ("subagent/descriptor", {"version": 2, "mode": "one-shot", "provider": "p"}),
        ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
    ]
    for seq in range(count):
        kind, data = kinds[seq % len(kinds)]
        record = {"type": kind, "seq": seq, "time": seq, "data": data}
        if kind == "user/message":
            record["surfaceOp"] = "append"
        yield read(encode(record))


_instructions = {
    "kind": "agent-instructions",
    "changes": [{"action": "set", "scope": "s", "path": "p"}],
}


def _message(source: dict[str, Any]) -> dict[str, Any]:
    return {"id": "u", "role": "user", "content": [{"type": "text", "text": "x"}], "source": source}


@pytest.mark.parametrize("name", list(ROOMS))
def test_one_event_one_cost(name: str) -> None:
    """An event costs the same early and late, and so does a value."""
    state = Playing()
    _, handlers = ROOMS[name]
    costs: dict[tuple[type, str], list[int]] = {}
    for line in events(4_000):
        assert isinstance(line, Event)
        event, room, gone = line, state.rooms[name], ()
        handler = handlers.get(type(event.body))
        if handler is None:
            continue
        own = lines_executed(lambda: handler(room, event, event.body, gone))  # noqa: B023
        costs.setdefault((type(event.body), event.type), []).append(own)
    assert costs or name == "pairing"
    for seen_costs in costs.values():
        assert max(seen_costs[-50:]) <= max(seen_costs[:50])


def test_a_node_without_calls_weighs_nothing() -> None:
    assert pairing.weight(Node(0, 0, "user/message")) == 0
    assert pairing.weight(Node(0, 0, "tool/result", 2**63)) == -1
