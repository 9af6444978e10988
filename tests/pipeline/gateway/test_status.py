"""A feed that has fallen silent is not taken for one that has nothing to say."""

from __future__ import annotations

from pipeline.gateway.status import SILENT_S, Status, StatusBoard


def board(status: Status) -> tuple[StatusBoard, list[float]]:
    clock = [100.0]
    made = StatusBoard(lambda: clock[0])
    made.put(status)
    return made, clock


def test_silence_is_told_as_stale_since_the_last_word() -> None:
    made, clock = board(Status("live", lag=0))
    made.alive(1_700)
    clock[0] += SILENT_S - 1
    assert made.now.state == "live"
    clock[0] += 2
    now = made.now
    assert (now.state, now.stale_since) == ("stale", 1_700)
    assert "answered" in (now.why or "")
    made.alive(1_800)
    assert made.now == Status("live", lag=0)


def test_what_is_said_already_stays() -> None:
    made, clock = board(Status("stale", 1_000, "no broker answers"))
    made.alive(1_000)
    clock[0] += 2 * SILENT_S
    assert made.now.why == "no broker answers"


def test_nobody_is_silent_who_was_never_asked_or_has_ended() -> None:
    made, clock = board(Status("live"))
    clock[0] += 2 * SILENT_S
    assert made.now.state == "live"
    made.alive(1)
    made.ended()
    clock[0] += 2 * SILENT_S
    assert made.now.state == "live"
    assert not made.followed
