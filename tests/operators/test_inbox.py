"""Steering: claims from the next-step inbox: projection.md §5.5."""

from typing import Any

import pytest

from tests.operators.build import tell
from tests.operators.records import (
    Json,
    checkpoint,
    record,
    replacing,
    splice,
    user,
)


def kind(*records: Json) -> str:
    """Of the last message's row."""
    told = tell(*records)
    return next(row.kind for row in reversed(told.rows.values()))


def claim(*ids: str) -> tuple[Json, Json]:
    return splice(*ids), splice(removed=len(ids))


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((user(),), "user"),
        ((splice("m-1"), user()), "user"),
        ((*claim("m-1"), user()), "steering"),
        ((splice("m-1"), splice(removed=1, canceled=True), user()), "user"),
        ((splice("m-1", to="next-turn"), splice(to="next-turn", removed=1), user()), "user"),
        ((*claim("m-1"), splice("m-1"), user()), "user"),
        ((*claim("m-1"), splice("m-1", to="next-turn"), user()), "user"),
        ((*claim("m-1"), splice("m-1", removed=9), user()), "user"),
        ((*claim("m-1"), splice("m-2", removed=9, canceled=True), user()), "steering"),
        ((*claim("m-1"), user(), user()), "user"),
        ((*claim("m-1"), user(source={"kind": "goal"}), user()), "user"),
        ((*claim("m-1"), user(id_="m-2"), replacing(user(), 2, 2), user()), "user"),
        ((*claim("m-1"), user(source={"kind": "goal"})), "context"),
        ((*claim("m-2"), user(id_="m-1")), "user"),
        ((*claim("m-1", "m-2"), user(id_="m-1"), user(id_="m-2")), "steering"),
    ],
)
def test_a_message_is_steering_when_it_was_claimed(
    records: tuple[Json, ...], expected: str
) -> None:
    assert kind(*records) == expected


@pytest.mark.parametrize(
    ("start", "removed", "claimed"),
    [
        (0, 1, "a"),
        (1, 9, "bc"),
        (-1, 1, "c"),
        (-9, 2, "ab"),
        (9, 9, ""),
        (0, -3, ""),
        (1, 0, ""),
    ],
)
def test_splices_are_clamped_as_javascript_does(start: int, removed: int, claimed: str) -> None:
    told = tell(
        splice("a", "b", "c"),
        splice(start=start, removed=removed),
        *(user(id_=each) for each in "abc"),
    )
    kinds = {each: told.has(f"steering:{2 + at}") for at, each in enumerate("abc")}
    assert "".join(each for each, steering in kinds.items() if steering) == claimed


def test_an_insertion_between() -> None:
    told = tell(splice("a", "c"), splice("b", start=1), splice(start=1, removed=1), user(id_="b"))
    assert told.row("steering:3").kind == "steering"


def test_a_refused_message_uses_no_claim_up() -> None:
    assert kind(*claim("m-1"), user(surfaceOp=0), user()) == "steering"


def test_an_unknown_target_is_malformed() -> None:
    told = tell(splice("m-1", to="next-week"))
    assert told.quality == {"malformed": 1}


def test_a_steering_message_of_old_is_always_steering() -> None:
    data: dict[str, Any] = {"content": [{"type": "text", "text": "x"}]}
    told = tell(record("steering/message", data, surfaceOp="append"), record("steering/message"))
    assert told.keys() == ["steering:0"]
    assert told.overview.shapes == ("legacy-names",)


def test_a_checkpoint_uses_a_claim_up_too() -> None:
    assert kind(user("x", id_="x"), *claim("k-1"), checkpoint(0, 0), user(id_="k-1")) == "user"
