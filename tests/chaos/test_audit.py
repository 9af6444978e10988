"""The count finds what is lost, doubled or out of order; on topics as a right fold leaves them it
finds nothing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from operators.session import fold
from schemas.inbound import read_line
from schemas.outbound import encode
from tests.chaos.audit import Found, compare
from tests.chaos.feeder import stream, twice

LINES = [line for line, _ in zip(stream(Random(3), 2), range(900), strict=False)]


def fed() -> dict[str, list[bytes]]:
    lines: dict[str, list[bytes]] = {}
    for line in LINES:
        lines.setdefault(line.session, []).append(line.value)
    return lines


def there() -> Found:
    folded = {name: fold(map(read_line, lines), name) for name, lines in fed().items()}
    return Found(
        {name: [(c.epoch, c.seq) for c in one.surface] for name, one in folded.items()},
        {name: encode(one.overview) for name, one in folded.items()},
        0,
    )


def longest(found: Found) -> list[tuple[int, int]]:
    return max(found.surface.values(), key=len)


def test_a_right_fold_is_clean() -> None:
    count = compare(fed(), there())
    assert count.clean, count
    assert count.surface > 100


@pytest.mark.parametrize(
    ("damage", "counts"),
    [
        (lambda surface: surface.pop(5), (1, 0, 0)),
        (lambda surface: surface.append(surface[5]), (0, 1, 0)),
        (lambda surface: surface.reverse(), (0, 0, 1)),
        (lambda surface: surface.append((1, 0)), (0, 1, 0)),
    ],
)
def test_one_record_is_noticed(
    damage: Callable[[list[tuple[int, int]]], object], counts: tuple[int, int, int]
) -> None:
    found = there()
    damage(longest(found))
    count = compare(fed(), found)
    assert (count.lost, count.duplicated, count.disordered) == counts
    assert not count.clean
    assert count.first


def test_an_overview_of_an_earlier_moment_and_a_stranger_are_noticed() -> None:
    found = there()
    name, lines = max(fed().items(), key=lambda item: len(item[1]))
    earlier = encode(fold(map(read_line, lines[:-1]), name).overview)
    stale = Found(found.surface, {**found.overviews, name: earlier}, 0)
    assert compare(fed(), stale).lost == 1
    stranger = Found({**found.surface, "stranger": [(0, 0)]}, found.overviews, 0)
    assert compare(fed(), stranger).duplicated == 1


def test_what_is_sent_twice_has_its_first_in_order_and_its_second_out_of_it() -> None:
    sent = [line for line, _ in zip(twice(Random(1), iter(LINES)), range(1500), strict=False)]
    firsts = [line for line in sent if not line.again]
    assert firsts == LINES[: len(firsts)]
    again = [LINES.index(replace(line, again=False)) for line in sent if line.again]
    assert again != sorted(again)
    assert len(again) > len(set(again)) > len(sent) / 3
