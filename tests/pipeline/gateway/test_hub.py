from __future__ import annotations

from typing import Any

from pipeline.gateway import hub as hubs
from pipeline.gateway.changes import Place
from pipeline.gateway.cursor import to_text
from pipeline.gateway.frames import Bye, Ping, Problem
from pipeline.gateway.hub import Hub, Limits
from pipeline.gateway.protocol import Answered, Subscribe
from pipeline.gateway.subscriptions import Subscription
from tests.pipeline.gateway.live import (
    OFFSETS,
    FixedCut,
    answered,
    at,
    committed,
    kinds,
    overview,
    row,
    step,
    subscribe,
    take_all,
    text,
    watching,
)

SMALL = Limits(frames=4, bytes=100_000, stalled_s=30.0)


def many(hub: Hub, count: int, now: float = 0.0, *, start: int = 100) -> None:
    """So many frames, none of which supersedes another."""
    for rev in range(start, start + count):
        hub.feed(committed(row(f"user:{rev}", rev, offset=rev)))
        hub.flush(now)


# --- sharing out


def test_a_change_reaches_those_who_watch_its_session_in_their_view() -> None:
    hub = Hub(OFFSETS)
    one, two = watching(hub, "s"), watching(hub, "s", "t")
    other, surface = watching(hub, "t"), watching(hub, "s", view="surface")
    hub.feed(committed(row(), step(2), overview(2)))
    assert hub.flush(0.0) == {one, two, surface}
    assert kinds(take_all(one)) == kinds(take_all(two)) == ["row", "overview", "cursor"]
    assert kinds(take_all(surface)) == ["surface", "overview", "cursor"]
    assert take_all(other) == []


def test_each_frame_is_serialised_once_and_its_bytes_are_shared() -> None:
    hub = Hub(OFFSETS)
    clients = [watching(hub, "s") for _ in range(3)]
    hub.feed(committed(row()))
    hub.flush(0.0)
    payloads = []
    for client in clients:
        taken = client.take()
        assert taken is not None
        payloads.append(taken.frames[0].payload)
    assert payloads[0] is payloads[1] is payloads[2]


def test_what_came_between_two_flushes_is_coalesced_once_for_all() -> None:
    hub = Hub(OFFSETS)
    client = watching(hub, "s")
    hub.feed(committed(text("a", 0, 2, offset=10), text("b", 1, 3, offset=11)))
    hub.feed(committed(text("c", 2, 4, offset=12)))
    hub.flush(0.0)
    (append, cursor) = take_all(client)
    assert (append["text"], append["rev"]) == ("abc", 4)
    assert cursor["at"].offsets["partials", 0] == 13
    assert hub.tally.coalesced == 2


def test_a_cursor_names_the_places_of_its_sessions_and_view_and_their_epochs() -> None:
    hub = Hub({**OFFSETS, ("transcript", 1): 99})
    client = watching(hub, "s")
    hub.feed(committed(row(epoch=4)))
    hub.flush(0.0)
    cursor = take_all(client)[-1]["at"]
    expected = {("transcript", 0): 11, ("partials", 0): 10, ("overview", 0): 10}
    assert cursor == at(expected, epochs={"s": 4})


def test_nobody_costs_anything_for_what_nobody_watches() -> None:
    hub = Hub(OFFSETS)
    hub.feed(committed(row()))
    assert hub.flush(0.0) == set()
    client = watching(hub, "s")
    hub.leave(client)
    hub.leave(client)
    assert hub.clients == {}
    assert hub._watchers == {}


# --- answers


def test_what_comes_while_a_session_is_looked_up_follows_its_answer() -> None:
    hub = Hub(OFFSETS)
    client = hub.join()
    hub.subscribe(client, Subscribe(sessions=("s",)), lambda _: True)
    hub.feed(committed(row("user:1", 1, offset=10)))
    hub.flush(0.0)
    ask = hub.ask(client)
    assert ask is not None
    assert hub.ask(client) is None  # one at a time
    hub.feed(committed(row("user:2", 2, offset=11), row("user:3", 3, offset=12)))
    hub.flush(0.0)
    assert take_all(client) == []
    frames = FixedCut([]).whole("s", "transcript").rows
    assert frames
    hub.answered(ask, answered(offset=12, frames=()), 0.0)  # it holds user:2
    found = take_all(client)
    assert kinds(found) == ["row", "cursor"]
    assert found[0]["key"] == "user:3"


def test_no_cursor_is_given_before_every_session_is_told() -> None:
    hub = Hub(OFFSETS)
    client = hub.join()
    hub.subscribe(client, Subscribe(sessions=("s", "t")), lambda _: True)
    first = hub.ask(client)
    assert first is not None
    hub.answered(first, answered("s"), 0.0)
    hub.feed(committed(row()))
    hub.flush(0.0)
    assert kinds(take_all(client)) == ["row"]
    second = hub.ask(client)
    assert second is not None
    assert second.session == "t"
    hub.answered(second, answered("t"), 0.0)
    (cursor,) = take_all(client)
    assert set(cursor["at"].epochs) == {"s", "t"}


def test_a_session_that_cannot_be_had_is_said_and_the_others_go_on() -> None:
    hub = Hub(OFFSETS)
    client = hub.join()
    hub.subscribe(client, Subscribe(sessions=("x", "s")), lambda _: True)
    ask = hub.ask(client)
    assert ask is not None
    hub.answered(ask, Problem("unknown-session", "there is none", "x"), 0.0)
    assert kinds(take_all(client)) == ["problem"]
    ask = hub.ask(client)
    assert ask is not None
    hub.answered(ask, answered("s"), 0.0)
    assert kinds(take_all(client)) == ["cursor"]
    hub.feed(committed(row("user:1", 1, session="x"), row("user:1", 1)))
    hub.flush(0.0)
    assert {frame.get("session") for frame in take_all(client)} == {"s", None}


def test_corpus_21_a_late_answer_to_what_is_no_longer_subscribed_is_void() -> None:
    hub = Hub(OFFSETS)
    client = hub.join()
    hub.subscribe(client, Subscribe(sessions=("s",), gen=1), lambda _: True)
    late = hub.ask(client)
    assert late is not None
    hub.subscribe(client, Subscribe(sessions=("t",), gen=2), lambda _: True)
    hub.answered(late, answered("s"), 0.0)
    assert take_all(client) == []


def test_a_subscription_is_replaced_by_a_higher_gen_alone() -> None:
    hub = Hub(OFFSETS)
    client = hub.join()
    first = hub.subscribe(client, Subscribe(sessions=("s",), gen=2), lambda _: True)
    again = hub.subscribe(client, Subscribe(sessions=("t",), gen=2), lambda _: True)
    assert isinstance(again, Problem)
    assert client.subscriptions[""] is first


def test_a_client_has_so_many_subscriptions_at_most() -> None:
    hub = Hub(OFFSETS)
    client = hub.join()
    for n in range(hubs.MAX_SUBSCRIPTIONS):
        asked = Subscribe(sessions=("s",), id=str(n))
        assert isinstance(hub.subscribe(client, asked, lambda _: True), Subscription)
    more = hub.subscribe(client, Subscribe(sessions=("s",), id="more"), lambda _: True)
    assert isinstance(more, Problem)
    hub.unsubscribe(client, "0")
    hub.unsubscribe(client, "0")
    more = hub.subscribe(client, Subscribe(sessions=("s",), id="more"), lambda _: True)
    assert isinstance(more, Subscription)


# --- the ladder


def test_more_than_may_wait_is_coalesced_first() -> None:
    hub = Hub(OFFSETS, SMALL)
    client = watching(hub, "s")
    for n in range(9):
        hub.feed(committed(text("x", n, n + 2, offset=10 + n)))
        hub.flush(0.0)
        assert client.frames <= SMALL.frames
    assert hub.tally.resyncs == 0
    assert hub.tally.squeezed > 0
    found = take_all(client)
    assert "".join(frame["text"] for frame in found[:-1]) == "x" * 9
    assert found[-1]["at"].offsets["partials", 0] == 19


def test_superseded_upserts_collapse() -> None:
    hub = Hub(OFFSETS, SMALL)
    client = watching(hub, "s")
    for rev in range(100, 120):
        hub.feed(committed(row("user:1", rev, offset=rev)))
        hub.flush(0.0)
    found = take_all(client)
    assert found[-2]["rev"] == 119
    assert hub.tally.resyncs == 0


def test_what_does_not_fit_is_a_resync_and_an_answer_follows_it() -> None:
    hub = Hub(OFFSETS, SMALL)
    client = watching(hub, "s")
    many(hub, 1)
    taken_cursor = take_all(client)[-1]["at"]
    many(hub, 9, start=200)
    assert (client.frames, client.bytes) == (0, 0)
    found = take_all(client)
    assert found == [{"t": "resync", "reason": "slow", "cursor": to_text(taken_cursor)}]
    assert hub.tally.dropped == 5
    ask = hub.ask(client)
    assert ask is not None
    assert ask.cursor == taken_cursor
    hub.answered(ask, answered(offset=300), 0.0)
    many(hub, 1, start=400)
    assert kinds(take_all(client)) == ["row", "cursor"]


def test_a_stalled_client_costs_the_others_nothing() -> None:
    hub = Hub(OFFSETS, SMALL)
    stalled, well = watching(hub, "s"), watching(hub, "s")
    read: list[dict[str, Any]] = []
    for rev in range(100, 200):
        hub.feed(committed(row(f"user:{rev}", rev, offset=rev)))
        assert well in hub.flush(0.0)
        read += take_all(well)
    assert [frame["rev"] for frame in read if frame["t"] == "row"] == list(range(100, 200))
    assert len(hub._watchers["s"]) == 1  # it is not even looked at
    assert stalled.frames == 0


def test_a_resync_that_is_not_taken_in_time_ends_the_connection() -> None:
    hub = Hub(OFFSETS, SMALL)
    stalled = watching(hub, "s")
    many(hub, 9, 100.0)
    assert hub.sweep(129.9) == []
    assert hub.sweep(130.0) == [stalled]
    assert hub.sweep(200.0) == []
    assert hub.tally.closed == 1
    assert take_all(stalled) == [{"t": "bye", "code": "slow", "retry_ms": hubs.RETRY_MS}]
    assert stalled.closed


def test_a_resync_that_is_taken_in_time_does_not() -> None:
    hub = Hub(OFFSETS, SMALL)
    client = watching(hub, "s")
    many(hub, 9, 100.0)
    take_all(client)
    assert hub.sweep(1_000.0) == []


def test_bytes_are_bounded_too_and_one_frame_alone_always_fits() -> None:
    hub = Hub(OFFSETS, Limits(frames=100, bytes=5_000))
    client = watching(hub, "s")
    hub.feed(committed(row("user:1", 100, offset=100, data="x" * 9_000)))
    hub.flush(0.0)
    assert kinds(take_all(client)) == ["row", "cursor"]
    for rev in range(101, 110):
        hub.feed(committed(row(f"user:{rev}", rev, offset=rev, data="x" * 1_000)))
        hub.flush(0.0)
        assert client.bytes <= 5_000
    assert kinds(take_all(client)) == ["resync"]


def test_all_subscriptions_of_a_client_share_its_bounds_and_its_resync() -> None:
    hub = Hub(OFFSETS, SMALL)
    client = watching(hub, "s", name="one")
    subscribe(hub, client, "s", name="two")
    many(hub, 2)  # two frames for each
    assert client.frames == 4
    many(hub, 1, start=200)
    assert kinds(take_all(client)) == ["resync", "resync"]
    assert hub._watchers == {}


def test_a_read_model_begun_anew_voids_all_cursors() -> None:
    hub = Hub(OFFSETS)
    client = watching(hub, "s")
    many(hub, 1)
    hub.feed(committed(rebuilt=True))
    assert hub.flush(0.0) == {client}
    assert take_all(client) == [{"t": "resync", "reason": "rebuilt", "cursor": None}]
    ask = hub.ask(client)
    assert ask is not None
    assert ask.cursor is None


def test_what_the_hub_was_not_told_is_asked_for_from_the_cursors() -> None:
    hub = Hub(OFFSETS)
    client = watching(hub, "s")
    many(hub, 1)
    cursor = take_all(client)[-1]["at"]
    hub.feed(committed(missed=True))
    hub.flush(0.0)
    assert take_all(client)[0]["cursor"] == to_text(cursor)


# --- taking


def test_a_take_ends_near_what_was_asked_for_and_its_cursor_covers_no_more() -> None:
    hub = Hub(OFFSETS)
    client = watching(hub, "s")
    many(hub, 3)
    first = client.take(1)
    assert first is not None
    assert len(first.frames) == 1
    assert first.cursor is not None
    rest = take_all(client)
    assert [frame.get("rev") for frame in rest] == [101, 102, None]


def test_frames_of_the_connection_go_first_and_a_bye_last() -> None:
    hub = Hub(OFFSETS)
    client = watching(hub, "s")
    many(hub, 1)
    client.end(Bye("max-age", 100))
    client.say(Ping())
    assert kinds(take_all(client)) == ["ping", "row", "cursor", "bye"]
    assert client.take() is None


def test_an_end_while_a_session_is_looked_up_voids_no_answer_and_asks_for_no_more() -> None:
    hub = Hub(OFFSETS)
    client = hub.join()
    hub.subscribe(client, Subscribe(sessions=("s", "t")), lambda _: True)
    ask = hub.ask(client)
    assert ask is not None
    client.end(Bye("shutdown", 100))
    hub.answered(ask, Problem("unknown-session", "there is none", "s"), 0.0)
    assert hub.ask(client) is None
    assert kinds(take_all(client)) == ["problem", "bye"]


def test_subscriptions_take_turns() -> None:
    hub = Hub(OFFSETS)
    client = watching(hub, "s", name="one")
    subscribe(hub, client, "t", name="two")
    for rev in (100, 101):
        hub.feed(committed(row(rev=rev, offset=rev), row(rev=rev, session="t", offset=rev)))
        hub.flush(0.0)
    names = []
    while (taken := client.take(1)) is not None:
        assert taken.subscription is not None
        names.append(taken.subscription.id)
    assert names == ["one", "two", "one", "two"]


# --- all sessions


def test_overviews_of_all_sessions_go_out_once_a_tick_the_last_of_each() -> None:
    hub = Hub(OFFSETS)
    client = watching(hub, view="overview")
    for seq in (1, 2, 3):
        hub.feed(committed(overview(seq, offset=9 + seq), row(), overview(session="t")))
        assert hub.flush(0.0) == set()
    assert hub.tick(0.0) == {client}
    found = take_all(client)
    assert [(f["session"], f["seq"]) for f in found[:-1]] == [("s", 3), ("t", 1)]
    assert found[-1]["at"].offsets == {("overview", 0): 13}
    assert hub.tick(1.0) == set()


def test_overviews_that_wait_for_the_tick_are_in_no_cursor() -> None:
    hub = Hub(OFFSETS)
    watching(hub, view="overview")
    hub.feed(committed(overview(2)))
    hub.flush(0.0)
    late = hub.join()
    subscription = hub.subscribe(late, Subscribe(view="overview"), lambda _: True)
    assert isinstance(subscription, Subscription)
    ask = hub.ask(late)
    assert ask is not None
    offsets: dict[Place, int] = {("overview", 0): 10}
    hub.answered(ask, Answered("", 0, None, "log", offsets, ()), 0.0)
    assert take_all(late)[-1]["at"].offsets == offsets
    hub.tick(0.0)
    assert kinds(take_all(late)) == ["overview", "cursor"]


def test_overviews_that_a_client_may_not_see_do_not_reach_it() -> None:
    hub = Hub(OFFSETS)
    client = hub.join()
    hub.subscribe(client, Subscribe(view="overview"), lambda session: session == "t")
    ask = hub.ask(client)
    assert ask is not None
    hub.answered(ask, answered(""), 0.0)
    take_all(client)
    hub.feed(committed(overview(), overview(session="t")))
    hub.flush(0.0)
    hub.tick(0.0)
    assert [frame.get("session") for frame in take_all(client)] == ["t", None]
