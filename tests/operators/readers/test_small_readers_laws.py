"""The laws for the small readers: no input makes one raise, and where a log is cut into batches,
sent again, saved and restored does not show."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from operators.events import EndSeed, Event, Header, Line
from operators.nodes import Node
from operators.readers import answers, documents, injected, pairing, references, titles
from operators.readers.projections import Projections
from operators.readers.references import Subject
from operators.text import to_json
from tests.laws.folding import Saved
from tests.operators.readers.hostile import logs
from tests.operators.readers.playing import Playing, read
from tests.strategies import any_logs, splits

encode = msgspec.json.encode
reads = logs.map(lambda log: [read(line) for line in log])
any_reads = any_logs.map(lambda log: [read(line) for line in log])


def seen(played: Playing) -> bytes:
    """All values as JSON, the quality facts among them."""
    return encode([played.values(), played.quality])


def restored(played: Playing) -> Playing:
    """With a session that went through the bytes of a snapshot."""
    saved, twin = Saved(), played.fork()
    saved.save(twin.session)
    twin.session = saved.load()
    return twin


@given(reads | any_reads)
def test_no_input_raises(lines: list[Line]) -> None:
    """Not in the rooms and not in what is computed where the events are."""
    played = Playing().take_all(lines)
    assert seen(played)
    told = played.told()
    assert to_json(answers.reference(played.rooms, told))
    assert encode(answers.own(played.rooms, told))
    assert all(each.text for each in documents.documents(played.events, played.mark))
    pairing.cuts(played.surface())
    every = injected.liveness(
        played.events, [node.seq for node in played.surface()], played.shadowed_by
    )
    assert {each.seq for each in every if each.state != "shadowed"} == set(played.rooms.contexts)
    titles.eligible_seqs(played.events)
    nodes = [played.messages[node.seq] for node in played.surface()]
    for budget in (0, 90, 300, 5000):
        made = references.reference(nodes, Subject("s", "<l>", "/w", 3), budget)
        assert made is None or made.bytes <= budget


@given(reads, st.booleans(), st.data())
def test_batches_do_not_show(lines: list[Line], whole: bool, data: st.DataObject) -> None:
    at_once = Playing(whole=whole).take_all(lines)
    state = Playing(whole=whole)
    for batch in data.draw(splits(lines), label="batches"):
        before = seen(state)
        staged = state.fork().take_all(batch)
        assert seen(state) == before, "a batch that was not kept left a trace"
        state = staged
    assert seen(state) == seen(at_once)


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
    state = Playing(whole=False).take_all(lines[:cut])
    resumed = restored(state)
    assert seen(resumed) == seen(state)
    assert seen(resumed.take_all(lines[cut:])) == seen(state.take_all(lines[cut:]))


@given(reads, st.integers(0, 30))
def test_a_fork_begins_with_its_own(lines: list[Line], seed_length: int) -> None:
    """What counts events counts the own ones, as if the log began there; what belongs to the
    surface stays; an identity says whose it is."""
    header = Header("c", Raw(b"{}"), seed_length=seed_length)
    child = Playing(whole=False).take_all([header, *lines])
    own = Playing(whole=True)
    for event in child.events:
        if event.seq >= seed_length and child.session.seed_cut is None:
            own.rooms.take(event, (), lambda _: None)
    ours, alone = child.values(), own.values()
    for name in ("title", "listing", "goal", "todos", "plan", "permissions"):
        if child.session.seed_cut is None and not ends_seed(child.events):
            assert getattr(ours, name) == getattr(alone, name)
    whole = Playing(whole=True).take_all([header, *lines]).values()
    assert (ours.pairing, ours.injected) == (whole.pairing, whole.injected)
    if ours.subagent is not None and child.session.seed_cut is None:
        assert whole.subagent is not None
        assert ours.subagent.seq == whole.subagent.seq


def ends_seed(events: list[Event]) -> bool:
    """A second cut."""
    return any(isinstance(event.body, EndSeed) for event in events)


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
    return str(frame.f_globals.get("__name__")).startswith("operators.")


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


def unheard(_: str) -> None:
    pass


def test_one_event_one_cost() -> None:
    """An event costs the same early and late, and so do a copy and all values."""
    state = Projections()
    costs: dict[str, list[int]] = {}
    for line in events(4_000):
        assert isinstance(line, Event)
        event, rooms = line, state.fork()
        copied = lines_executed(state.fork)
        took = lines_executed(lambda: rooms.take(event, (), unheard))  # noqa: B023
        told = lines_executed(lambda: rooms.values(0))  # noqa: B023
        rooms.own_contexts.dirty.clear()  # as a save does
        state = rooms
        costs.setdefault(event.type, []).append(took)
        costs.setdefault("copy", []).append(copied)
        costs.setdefault("values", []).append(told)
    for seen_costs in costs.values():
        assert max(seen_costs[-50:]) <= max(seen_costs[50:150])


def test_a_node_without_calls_weighs_nothing() -> None:
    assert pairing.weight(Node(0, 0, "user/message")) == 0
    assert pairing.weight(Node(0, 0, "tool/result", 2**63)) == -1
