"""A surface rebuilt from its changes, windows and resets included."""

from typing import Any

from msgspec import Raw

from operators.changes import SurfaceChange, Target
from pipeline.surfaces import Replacement, SurfaceView


def change(seq: int, op: str, **fields: Any) -> SurfaceChange:
    message = Raw(b'{"content":[{"type":"image"}],"n":%d}' % seq)
    whole = {"message": message, "type": "user/message"} | fields
    return SurfaceChange("s", 0, seq, op, **whole)


def view_of(*changes: SurfaceChange) -> SurfaceView:
    view = SurfaceView()
    view.apply_all(changes)
    return view


def test_a_replacement_takes_the_place_of_what_it_shadows() -> None:
    appends = [change(seq, "append") for seq in (0, 1, 2, 3)]
    landed = change(9, "replace", start=1, end=2, shadowed=(1, 2), position=1, generation=1)
    view = view_of(*appends, landed)
    surface = view.surface()
    assert surface.nodes == surface.message_seqs == [0, 9, 3]
    assert surface.replacements == [Replacement(9, 1, 2, (1, 2))]
    assert (surface.generation, view.shadowed) == (1, [1, 2])
    assert [bytes(message)[-4:] for message in surface.messages] == [b'":0}', b'":9}', b'":3}']


def test_in_a_window_only_the_cited_nodes_leave() -> None:
    appends = [change(seq, "append") for seq in (5, 6, 7, 8)]
    landed = change(9, "replace", shadowed=(5, 7), position=0, generation=1, partial=True)
    assert view_of(*appends, landed).nodes == [9, 6, 8]
    nothing = change(9, "replace", shadowed=(), position=2, generation=1, partial=True)
    assert view_of(*appends, nothing).nodes == [5, 6, 9, 7, 8]


def test_a_node_without_a_message_stands_and_is_not_sent() -> None:
    surface = view_of(change(0, "append", message=None), change(1, "append")).surface()
    assert (surface.nodes, surface.message_seqs) == ([0, 1], [1])


def test_an_offloaded_image_is_marked_until_its_node_leaves() -> None:
    amend = change(1, "amend", message=None, targets=(Target(0, (0,)),))
    view = view_of(change(0, "append"), amend)
    assert view.message(0) == Raw(b'{"content":[{"type":"image","offloaded":true}],"n":0}')
    assert view.nodes == [0]
    view.apply(change(2, "replace", shadowed=(0,), position=0, generation=1))
    assert view.message(2) == Raw(b'{"content":[{"type":"image"}],"n":2}')


def test_a_reset_begins_anew() -> None:
    view = view_of(change(0, "append"), change(-1, "reset", message=None), change(0, "append"))
    assert (view.nodes, view.shadowed, view.generation) == ([0], [], 0)
