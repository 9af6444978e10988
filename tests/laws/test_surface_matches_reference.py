"""Law 8: nodes, shadowed sets and generation equal the reference; a log that it rejects is rejected
at the same event for the same reason. The whole golden set is compared in tests/golden; here are an
independent fold that is as plain as the rule, and a few golden cases of this project's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from operators.session import Out, Session
from schemas.inbound import read_line
from tests.laws import naive_surface
from tests.laws.folding import SESSION
from tests.laws.reader import Reader
from tests.strategies import simulated_logs, soups

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.json"))


@given(simulated_logs | soups(gaps=False) | soups())
def test_surface_matches_reference(log: list[bytes]) -> None:
    expected = naive_surface.fold(log)
    state, reader, error = strictly(log)
    assert error == expected.error
    assert reader.nodes == expected.nodes
    assert reader.shadowed == expected.shadowed
    assert reader.generation == expected.generation
    assert state.next_seq == expected.next_seq


@given(soups(gaps=False))
def test_a_refused_event_leaves_the_surface_and_takes_its_seq(log: list[bytes]) -> None:
    state, out = Session(SESSION), Out()
    for line in log:
        state.take(read_line(line), out)
    reader = Reader().apply(out.changes(state))
    expected = naive_surface.fold_on(log)
    assert reader.nodes == expected.nodes
    assert reader.shadowed == expected.shadowed
    assert [refused.reason for refused in out.refused] == expected.errors


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_golden_sample(path: Path) -> None:
    sample = json.loads(path.read_text("utf-8"))
    log = [line.encode() for line in sample["log"]]
    state, reader, error = strictly(log)
    assert (error, state.next_seq) == (sample["error"], sample["accepted"])
    assert reader.nodes == sample["nodes"]
    assert reader.generation == sample["generation"]
    naive = naive_surface.fold(log)
    assert (naive.error, naive.nodes) == (sample["error"], sample["nodes"])


def strictly(log: list[bytes]) -> tuple[Session, Reader, str | None]:
    """Fold up to the first refused line, as the harness does."""
    state, reader = Session(SESSION, strict=True), Reader()
    for line in log:
        out = Out()
        state.take(read_line(line), out)
        if out.refused:
            return state, reader, out.refused[0].reason
        reader.apply(out.changes(state))
    return state, reader, None
