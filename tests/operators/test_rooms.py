"""Rooms that two sessions share after a fork: neither sees what the other changes."""

from __future__ import annotations

import pytest

from operators.inbox import Inbox
from operators.rooms import Rooms
from operators.session import Session
from tests.laws.folding import one_batch
from tests.operators.build import lines_of
from tests.operators.records import splice, user


def session() -> Session:
    state, _ = one_batch(Session("s-1"), lines_of(user(), splice("m-1")))
    return state


@pytest.mark.parametrize("first", [True, False], ids=["the original", "the copy"])
def test_a_change_of_one_is_none_of_the_other(first: bool) -> None:
    original = session()
    twin = original.fork()
    changed, other = (original, twin) if first else (twin, original)
    changed.inbox.next_step = ("m-2",)
    changed.surface.size = 9
    assert (other.inbox.next_step, other.surface.size) == (("m-1",), 1)
    assert (changed.fork().inbox.next_step, changed.surface.size) == (("m-2",), 9)


def test_a_room_is_shared_until_it_is_asked_for() -> None:
    original = session()
    twin = original.fork()
    assert Rooms.inbox.peek(twin) is Rooms.inbox.peek(original)
    assert twin.inbox is twin.inbox is not Rooms.inbox.peek(original)
    assert Rooms.tools.peek(twin) is Rooms.tools.peek(original)


def test_a_room_that_is_put_in_its_place_is_the_copy_s() -> None:
    twin = session().fork()
    twin.inbox = Inbox()
    assert Rooms.inbox.peek(twin.fork()) is not None
    assert twin.fork().inbox.next_step == ()
