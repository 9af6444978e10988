"""Cuts of the surface and what replacements tear apart (readers.md §9)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operators.events import Event
from operators.nodes import Node
from operators.readers import pairing
from operators.readers.pairing import Pairing, Pairs, cuts
from tests.operators.build import line
from tests.operators.readers.playing import tell
from tests.operators.records import checkpoint, result, say, user


def node(seq: int, counts: int) -> Node:
    kind = "tool/result" if counts < 0 else "assistant/message" if counts else "user/message"
    return Node(seq, seq, kind, max(0, counts))


def test_cuts_between_pairs_are_balanced() -> None:
    made = cuts([node(0, 0), node(1, 2), node(2, -1), node(3, -1), node(4, 1)])
    assert made.before == (True, True, False, False, True)
    assert made.after == (True, False, False, True, False)


def test_a_result_too_many_is_named_and_nothing_is_answered() -> None:
    made = cuts([node(0, 1), node(7, -1), node(3, -1), node(9, 0)])
    assert (made.before, made.after, made.corrupt) == (None, None, 3)


def test_no_nodes_no_cuts() -> None:
    assert cuts([]) == pairing.Cuts((), ())


def test_a_call_that_runs_leaves_the_tail_unbalanced() -> None:
    played = tell(say(calls=("a",)))
    assert played.rooms["pairing"].value() == Pairs(waiting=1)
    assert played.quality == {}


def test_a_compaction_between_call_and_result_is_told() -> None:
    """The call leaves the surface, its result stays: a request with it would be refused."""
    played = tell(say(calls=("a",)), result("a"), checkpoint(0, 0))
    assert played.rooms["pairing"].value() == Pairs(waiting=-1, orphan_results=1)
    assert played.quality == {"reader:toolPairing": 1}
    assert cuts(played.surface()).corrupt == 1


def test_a_compaction_that_takes_results_alone_is_told() -> None:
    played = tell(say(calls=("a", "b")), result("a"), result("b"), checkpoint(1, 2))
    assert played.rooms["pairing"].value() == Pairs(waiting=2, orphan_calls=2)


def test_a_balanced_compaction_tears_nothing() -> None:
    played = tell(say(calls=("a",)), result("a"), say(calls=("b",)), checkpoint(0, 1))
    assert played.rooms["pairing"].value() == Pairs(waiting=1)
    assert "reader:toolPairing" not in played.quality


def test_a_result_without_a_call_is_corrupt_where_it_stands() -> None:
    played = tell(say("hi"), result("a"), say(calls=("b",)))
    assert played.rooms["pairing"].value().corrupt == 1


@given(st.lists(st.integers(-1, 3), max_size=12), st.data())
def test_kept_figures_are_those_of_the_nodes(counts: list[int], data: st.DataObject) -> None:
    """After a replacement: waiting is the sum over the nodes, and what was torn is what a walk over
    the old surface says of calls and results on either side of the range."""
    room = Pairing()
    nodes = [node(seq, count) for seq, count in enumerate(counts)]
    for each in nodes:
        _land(room, each, ())
    room.state = Pairs(room.state.waiting)
    low = data.draw(st.integers(0, len(nodes)))
    high = data.draw(st.integers(low, len(nodes)))
    new = node(len(nodes), data.draw(st.integers(-1, 2)))
    gone = tuple(nodes[low:high])
    _land(room, new, gone)
    after = [*nodes[:low], new, *nodes[high:]]
    assert room.state.waiting == sum(map(pairing.weight, after))
    inside = [pairing.weight(each) for each in gone]
    needs = max(0, *(-sum(inside[: n + 1]) for n in range(len(inside))), 0)
    leaves = sum(inside) + needs
    weight = pairing.weight(new)
    assert room.state.orphan_calls == max(0, needs - max(0, -weight))
    assert room.state.orphan_results == max(0, leaves - max(0, weight))


def _land(room: Pairing, new: Node, gone: tuple[Node, ...]) -> None:
    """An event that makes such a node, told to the room."""
    made = user() if not new.identity else say(calls=("c",) * new.identity)
    made = result() if new.type == "tool/result" else made
    event = line({**made, "seq": new.seq, "time": 0})
    assert isinstance(event, Event)
    for handlers in (pairing.PAIRING, pairing.REPLACING if gone else {}):
        if type(event.body) in handlers:
            handlers[type(event.body)](room, event, event.body, gone)
