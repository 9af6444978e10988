"""Injected damage: what the fold says of each piece is what the injection says it must."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from pipeline.documents import fold_lines
from pipeline.limits import MAX_LINE_BYTES
from pipeline.simulate import FAULTS, SHAPES, Damaged, fleet, inject, simulate

SMALL = [kind for kind in FAULTS if kind != "huge"]


def damaged(seed: int, shape: str, *kinds: str) -> Damaged:
    return inject(simulate(seed, events=120, shape=shape), seed=seed, kinds=kinds or SMALL)


def folded(damage: Damaged, *, strict: bool = False) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(fold_lines(damage.session.lines, strict=strict))
    return document


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(6))
def test_the_fold_finds_what_was_injected(seed: int, shape: str) -> None:
    damage = damaged(seed, shape)
    document = folded(damage)
    found = [(fault["line"], fault["reason"]) for fault in document["faults"]]
    assert found == [(fault.line, fault.reason) for fault in damage.faults if fault.reason]
    facts = Counter(fault.quality for fault in damage.faults if fault.quality)
    quality = document["quality"]
    assert {fact: quality.get(fact) for fact in facts} == facts


@pytest.mark.parametrize("kind", SMALL)
def test_a_strict_run_ends_at_the_damage(kind: str) -> None:
    found = 0
    for seed in range(8):
        damage = damaged(seed, "v4", kind)
        first = next((fault for fault in damage.faults if fault.strict), None)
        faults = folded(damage, strict=True)["faults"]
        if first is None:
            assert faults == []
        else:
            assert [(f["line"], f["reason"]) for f in faults] == [(first.line, first.strict)]
            found += 1
    assert found or kind == "replaced-utf8"


def test_damage_to_lines_leaves_the_rest_as_it_was() -> None:
    """Lines that take no seq, and redeliveries, change neither surface nor rows."""
    whole = simulate(4, events=200, shape="v3")
    kinds = ("bad-json", "torn", "not-utf8", "not-object", "bad-seq", "duplicate", "conflict")
    damage = inject(whole, seed=4, kinds=kinds)
    assert len(damage.faults) == len(kinds)
    before, after = json.loads(fold_lines(whole.lines)), folded(damage)
    assert after["surface"] == before["surface"]
    assert after["rows"] == before["rows"]


def test_a_huge_line_is_longer_than_ingest_sends() -> None:
    damage = damaged(1, "v4", "huge")
    (fault,) = damage.faults
    assert len(damage.session.lines[fault.line - 1]) > MAX_LINE_BYTES
    assert folded(damage)["faults"] == []


def test_a_fleet_can_be_damaged() -> None:
    whole, torn = (list(fleet(3, 2, events=40, faults=kinds)) for kinds in ((), ("torn",)))
    assert [
        len(after.lines) - len(before.lines) for before, after in zip(whole, torn, strict=True)
    ] == [1, 1]


def test_it_is_seeded() -> None:
    assert damaged(3, "v1") == damaged(3, "v1")
    assert damaged(3, "v1", "torn").session.lines != damaged(4, "v1", "torn").session.lines


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown faults: gremlins"):
        inject(simulate(1), kinds=["gremlins"])
