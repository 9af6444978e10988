"""Simulated roots are read back as any harness root."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.simulate import SHAPES, fleet, simulate, write_directory, write_session
from schemas.directory import scan
from schemas.jsonl import open_log


@pytest.mark.parametrize("zstd", [False, True], ids=["raw", "zstd"])
def test_a_written_root_holds_its_sessions(tmp_path: Path, zstd: bool) -> None:
    sessions = list(fleet(30, 2 * len(SHAPES), events=60))
    paths = write_directory(tmp_path, sessions, zstd=zstd)
    found = scan(tmp_path)
    assert found.problems == ()
    assert {entry.session: entry.path for entry in found.sessions} == {
        session.id: path for session, path in zip(sessions, paths, strict=True)
    }
    for session, path in zip(sessions, paths, strict=True):
        log = open_log(path)
        assert [line.raw for line in log.lines] == session.lines
        assert log.damage == []


def test_names_are_the_harness_own(tmp_path: Path) -> None:
    session = simulate(1, events=10, shape="v4")
    path = write_session(tmp_path, session)
    assert path.name == "session.v4.jsonl"
    assert path.parent.name == session.id
    assert write_session(tmp_path, simulate(1, events=10, shape="v0")).name == "session.jsonl"
