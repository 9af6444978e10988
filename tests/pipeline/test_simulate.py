"""Simulated sessions: seeded, valid in their shape, and as rich as they say."""

from __future__ import annotations

import doctest
import json
import re
from collections import Counter
from functools import cache
from types import ModuleType
from typing import Any

import pytest

import pipeline.simulate.faults
from operators.events import Event, Header
from pipeline.simulate import (
    FEATURES,
    PORTABLE,
    SHAPES,
    SimulatedSession,
    features_of,
    fleet,
    simulate,
)
from schemas.inbound import read_line
from tests.laws import naive_surface

SEEDS = range(40)


@cache
def many(shape: str) -> list[SimulatedSession]:
    return [simulate(seed, events=150, shape=shape) for seed in SEEDS]


def records(session: SimulatedSession) -> list[dict[str, Any]]:
    return [json.loads(line) for line in session.lines]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_arguments_give_the_same_bytes(shape: str) -> None:
    first, again = (simulate(5, events=120, shape=shape) for _ in range(2))
    assert first == again
    assert simulate(6, events=120, shape=shape).lines != first.lines


@pytest.mark.parametrize("shape", SHAPES)
def test_every_line_is_valid_in_its_shape(shape: str) -> None:
    """Seqs are dense, and the plain surface fold of the reference accepts every event."""
    for session in many(shape):
        folded = naive_surface.fold(session.lines)
        assert folded.error is None
        assert folded.next_seq == folded.accepted == session.events
        lines = [read_line(line) for line in session.lines]
        assert isinstance(lines[0], Header)
        assert all(isinstance(line, Event) and not line.quality for line in lines[1:])


@pytest.mark.parametrize("shape", SHAPES)
def test_headers_are_those_of_their_version(shape: str) -> None:
    seeded = "seedLength" if shape in ("pre", "v0-chunks", "v0", "v1") else "isSeeded"
    keys = {"type", "version", "id", "createdAt", "delegationDepth", "cwd", "parentSession"}
    for session in many(shape):
        header = json.loads(session.lines[0])
        assert header == session.header
        assert set(header) <= keys | {"origin", seeded}
        assert header["version"] == (int(shape[1]) if shape != "pre" else 0)
        assert "isSeeded" in header or seeded == "seedLength"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_fork_says_where_its_own_part_begins(shape: str) -> None:
    forks = 0
    for session in many(shape):
        tagged = [
            record["seq"]
            for record in records(session)
            if record["type"] == "session/end-seed" and record["data"] == {"inherited": True}
        ]
        if "isSeeded" in session.header:
            assert session.header["isSeeded"] == bool(tagged)
            forks += bool(tagged)
        elif "seedLength" in session.header:
            assert 0 <= session.header["seedLength"] <= session.events
            forks += 1
    assert forks


@pytest.mark.parametrize("shape", SHAPES)
def test_everything_that_can_happen_happens(shape: str) -> None:
    types: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    replaced: Counter[str] = Counter()
    for session in many(shape):
        for record in records(session):
            types[record["type"]] += 1
            data = record.get("data") or {}
            if record["type"] == "turn/end":
                reasons[data["reason"]["kind"]] += 1
            if record["type"].endswith("/end") and "compact" in record["type"]:
                outcomes["failed" if "error" in data else "landed"] += 1
            if isinstance(record.get("surfaceOp"), dict):
                replaced[record["type"]] += 1
    always = ["turn/start", "step/start", "user/message", "assistant/message", "tool/call"]
    always += ["tool/result", "agent/inbox/spliced", "llm/retry", "compaction/prune", "command/run"]
    always += ["command/done", "session/end-seed", "session/title", "request/header"]
    assert [kind for kind in always if not types[kind]] == []
    assert {"completed", "aborted", "error", "max-tokens", "interrupted", "blocked"} <= set(reasons)
    assert outcomes["failed"]
    assert outcomes["landed"]
    assert replaced["user/message"] > 5
    assert replaced["tool/result"] > 5


#: Event types (or keys on a line) that only some shapes show.
MARKS = {
    b'"compact/start"': {"pre"},
    b'"steering/message"': {"pre"},
    b'"context/message"': {"pre"},
    b'"compaction/start"': set(SHAPES) - {"pre"},
    b'"type":"assistant/chunk"': {"pre", "v0-chunks", "v0", "v1"},
    b'"type":"text-chunks","seq0"': {"v0", "v1"},
    b'"type":"tool-call-chunks","seq0"': {"v0", "v1"},
    b'"assistant/attempt"': {"v2", "v3", "v4"},
    b'"stream":[': {"v2", "v3", "v4"},
    b'"op":"replace","start"': {"pre", "v0-chunks", "v0", "v1", "v2"},
    b'"op":"replace","startSeq"': {"v3", "v4"},
    b'"system/message"': {"v3", "v4"},
    b'"image/offload"': {"v3", "v4"},
    b'"developer/message"': {"v4"},
    b'"tool/code-dispatch"': {"pre", "v0-chunks", "v0", "v1", "v2"},
    b'"tool/ptc-dispatch"': {"v3", "v4"},
    b'"role":"tool"': {"v4"},
    b'"type":"tool-result"': {"v0-chunks", "v0", "v1", "v2", "v3"},
    b'"kind":"compact-checkpoint"': {"v4"},
    b'"kind":"plugin","plugin":"compact"': set(SHAPES) - {"v4"},
    b'"sourceEventSeqs":[ranges': {"v1", "v2", "v3", "v4"},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_shows_its_own_marks(shape: str) -> None:
    text = b"\n".join(line for session in many(shape) for line in session.lines)
    text = re.sub(rb'"sourceEventSeqs":\[[0-9,]*\[', b'"sourceEventSeqs":[ranges', text)
    shown = {mark for mark in MARKS if mark in text}
    assert shown == {mark for mark, shapes in MARKS.items() if shape in shapes}


@pytest.mark.parametrize("shape", ["v0-chunks", "v4"])
def test_hostile_text_reaches_the_lines(shape: str) -> None:
    text = b"\n".join(line for session in many(shape) for line in session.lines)
    for shown in ("\u202e", "\u2028", "\u200d", "<script>", "\ufeff", "压缩"):
        assert shown.encode() in text, shown
    for part in (b"\\ud83d ", b"\\ude42", b"\\u001b[31m", b"\\u0000"):
        assert part in text, part
    assert "\uf8f0".encode() not in text


def test_a_feature_left_out_does_not_happen() -> None:
    def types(features: frozenset[str]) -> set[str]:
        sessions = [simulate(seed, events=150, shape="v4", features=features) for seed in SEEDS]
        return {record["type"] for session in sessions for record in records(session)}

    everything = features_of("v4")
    assert "llm/retry" not in types(everything - {"retries"})
    assert "compaction/prune" not in types(everything - {"prunes"})
    assert "tool/ptc-dispatch" not in types(everything - {"dispatches"})
    plain = types(frozenset())
    assert plain <= {
        "session",
        "agent/inbox/spliced",
        "turn/start",
        "turn/end",
        "step/start",
        "step/end",
        "system/message",
        "user/message",
        "assistant/message",
        "request/header",
        "request/context",
    }


@pytest.mark.parametrize("module", [pipeline.simulate, pipeline.simulate.faults])
def test_the_examples_in_the_docs_hold(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown features: flying"):
        simulate(1, features={"flying"})
    with pytest.raises(ValueError, match="unknown shape 'v9'; known: pre, v0-chunks"):
        simulate(1, shape="v9")


def test_length_follows_the_options() -> None:
    assert 300 <= simulate(2, events=300, features=PORTABLE).events < 450
    assert simulate(2, events=0).events == 0
    short, long = (simulate(2, exchanges=count, features=PORTABLE) for count in (1, 3))
    assert long.lines[1 : len(short.lines)] == short.lines[1:]
    assert long.events > short.events
    cut = [simulate(seed, events=50, features=FEATURES) for seed in SEEDS]
    open_end = [s for s in cut if json.loads(s.lines[-1])["type"] not in QUIET]
    assert open_end


QUIET = {"turn/end", "session/end-seed"}


def test_a_fleet_takes_the_shapes_in_turn() -> None:
    sessions = list(fleet(100, 9, events=20))
    assert [session.shape for session in sessions] == [*SHAPES, *SHAPES[:2]]
    assert len({session.id for session in sessions}) == 9
    parents = {s.header["parentSession"] for s in fleet(0, 60, events=9) if parent(s)}
    assert parents <= {f"sim-{seed:08d}" for seed in range(-1, 60)}


def parent(session: SimulatedSession) -> bool:
    return "parentSession" in session.header
