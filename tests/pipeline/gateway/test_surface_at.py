"""The surface at any seq is what a fold of the log up to there gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from operators.history import classify
from pipeline import published
from pipeline.gateway import sessions, surface_at
from pipeline.gateway.jsonout import safe
from pipeline.gateway.stored_log import StoredLog
from pipeline.memory_ends import MemoryReader
from pipeline.readers import query
from pipeline.simulate import SHAPES, simulate
from pipeline.surfaces import SurfaceView
from tests.pipeline.gateway.stage import Stage


@pytest.mark.parametrize("shape", SHAPES)
def test_every_moment_is_that_of_a_fold(tmp_path: Path, shape: str) -> None:
    stage = Stage(tmp_path)
    session = simulate(21, events=500, shape=shape)
    stage.play([session])
    found = published.session(MemoryReader(stage.broker), stage.names, session.id)
    assert found is not None
    view, changes = SurfaceView(), list(found.surface)
    assert any(change.op == "replace" for change in changes)
    with stage.store.read() as connection:
        for number, change in enumerate(changes):
            view.apply(change)
            following = changes[number + 1].seq if number + 1 < len(changes) else None
            for at in (following and following - 1, change.seq):
                generation, nodes = surface_at.surface_at(connection, session.id, at)
                assert [node.seq for node in nodes] == view.nodes
                assert generation == view.generation
            for node in surface_at.surface_at(connection, session.id, change.seq)[1]:
                message = view.message(node.seq)
                if message is None:
                    assert node.message is None
                elif len(bytes(message)) <= 16_384:
                    assert node.message is not None
                    assert bytes(node.message) == safe(bytes(message))


def test_marks_chains_and_differences_agree(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    session = simulate(21, events=600)
    stage.play([session])
    found = published.session(MemoryReader(stage.broker), stage.names, session.id)
    assert found is not None
    view = SurfaceView()
    view.apply_all(found.surface)
    end = found.overview.next_seq
    with stage.store.read() as connection:
        marks = surface_at.marks(connection, session.id, (0, end), None)
        assert marks == classify(0, end, view.nodes, view.shadowed)
        held = sessions.find(connection, session.id)
        assert held is not None
        log = StoredLog(connection, held)
        for seq, mark in enumerate(marks):
            trace = query.traced(log, seq, "")
            assert trace.surface == {"C": "current", "S": "shadowed", "-": "log-only"}[mark]
            assert (mark == "S") == bool(trace.chain)
            if trace.chain:
                assert marks[trace.chain[-1]] == "C"
        middle = end // 2
        came, went, passed, _ = surface_at.difference(connection, session.id, middle, end)
        _, then = surface_at.surface_at(connection, session.id, middle)
        assert {n.seq for n in then} - {n.seq for n in went} | {n.seq for n in came} == set(
            view.nodes
        )
        assert not {n.seq for n in passed} & set(view.nodes)


def test_a_window_whose_range_was_never_seen(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    session = simulate(21, events=400)
    lines = [(session.id, line) for line in session.lines[150:]]
    stage.feed(lines)
    stage.run()
    stage.read_on()
    found = published.session(MemoryReader(stage.broker), stage.names, session.id)
    assert found is not None
    view = SurfaceView()
    with stage.store.read() as connection:
        for change in found.surface:
            view.apply(change)
            _, nodes = surface_at.surface_at(connection, session.id, change.seq)
            assert [node.seq for node in nodes] == view.nodes
