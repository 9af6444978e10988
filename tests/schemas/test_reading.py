from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec import structs

from operators import changes as c
from schemas.errors import ReadError
from schemas.outbound import encode
from schemas.reading import transcripts
from tests.schemas.samples import ID, SAMPLES, row

GAP = c.GapData(1, 2)


def keys(values: list[bytes | None]) -> dict[str, list[tuple[str, int]]]:
    found = transcripts(values)
    return {s: [(r["key"], r["rev"]) for r in rows] for s, rows in found.items()}


def values(*rows: Any) -> list[bytes | None]:
    return [encode(change) for change in rows]


def test_the_last_row_of_a_key_counts_in_log_order() -> None:
    first = row("tool", GAP, anchor=9, rev=9)
    second = row("tool", GAP, anchor=9, rev=12)
    before = row("user", GAP, anchor=5, rev=5)
    after = row("turn", GAP, anchor=9, anchor_rank=10, rev=13)
    shuffled = values(after, second, before, first)
    assert keys(shuffled) == {ID: [("user:5", 5), ("tool:9", 12), ("turn:9", 13)]}
    random.Random(4).shuffle(shuffled)
    assert [key for key, _ in keys(shuffled)[ID]] == ["user:5", "tool:9", "turn:9"]


def test_a_deleted_row_is_gone_and_may_come_back() -> None:
    marker = row("compaction", GAP, anchor=4, rev=4)
    gone = structs.replace(marker, rev=6, seq=6, deleted=True, data=None)
    assert keys(values(marker, gone)) == {ID: []}
    assert keys(values(marker, gone, structs.replace(marker, rev=8))) == {ID: [("compaction:4", 8)]}


def test_rows_of_an_older_epoch_are_left_out() -> None:
    old = row("user", GAP, anchor=1, epoch=0)
    new = row("user", GAP, anchor=2, epoch=1)
    assert keys(values(new, old)) == {ID: [("user:2", 2)]}
    reset = structs.replace(SAMPLES["overview"][0], epoch=1, seq=-1)
    assert keys(values(old, reset)) == {ID: []}


def test_sessions_stand_apart_and_other_values_are_passed_over() -> None:
    other = row("user", GAP, session="other")
    mixed = [*values(row("user", GAP), other, SAMPLES["surface"][0], SAMPLES["partials"][0]), None]
    assert keys(mixed) == {ID: [("user:7", 7)], "other": [("user:7", 7)]}


def test_a_value_that_is_none_of_ours_is_an_error() -> None:
    with pytest.raises(ReadError, match="not-avro"):
        transcripts([b"hello"])
