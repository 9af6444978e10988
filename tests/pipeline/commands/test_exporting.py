"""``export``: the gateway's own bytes, out of a file."""

from __future__ import annotations

import json
import os
import pty
import re
from pathlib import Path

import pytest
import zstandard

from pipeline.simulate import SHAPES, simulate
from tests.pipeline.gateway.asking import Client
from tests.pipeline.gateway.stage import Stage
from tests.pipeline.test_cli import elsewhere, process, run

__all__ = ["elsewhere"]

FORMATS = ("md", "html", "jsonl")


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_is_exported_as_the_gateway_exports_its_topics(
    tmp_path: Path, shape: str, format_: str
) -> None:
    session = simulate(6, events=200, shape=shape)
    stage = Stage(tmp_path)
    stage.play([session])
    answer = Client(stage).get(f"/v1/sessions/{session.id}/export?format={format_}")
    log = tmp_path / session.id / f"session.{shape}.jsonl"
    log.parent.mkdir()
    log.write_bytes(b"".join(line + b"\n" for line in session.lines))
    with process("export", log.parent, "--format", format_) as child:
        out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert out == answer.content
    stage.store.close()


def write(path: Path, end: bytes = b"") -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in simulate(6, events=200).lines) + end)
    return path


def test_into_a_file_whole_or_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write(tmp_path / "log.jsonl")
    printed = run(capsys, "export", log).out
    assert run(capsys, "export", log, "-o", tmp_path / "out.md").code == 0
    assert (tmp_path / "out.md").read_text() == printed

    def broken(*_: object) -> object:
        yield b"half of it"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipeline.commands.exporting.exported", broken)
    ran = run(capsys, "export", log, "-o", tmp_path / "out.md")
    assert ran.code == 1
    assert "No space left" in ran.err
    assert (tmp_path / "out.md").read_text() == printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "out.md"]


def test_a_folder_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run(capsys, "export", write(tmp_path / "log.jsonl"), "-o", tmp_path / "no" / "x")
    assert (ran.code, ran.out) == (1, "")
    assert "no/" in ran.err


def test_what_can_be_read_of_a_broken_log_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = write(tmp_path / "log.jsonl").read_bytes()
    whole = run(capsys, "export", tmp_path / "log.jsonl", "--format", "jsonl")
    log = tmp_path / "cut.jsonl.zstd"
    log.write_bytes(zstandard.compress(lines) + zstandard.compress(lines)[:-40] + b"?" * 40)
    ran = run(capsys, "export", log, "--format", "jsonl")
    assert (ran.code, ran.out) == (0, whole.out)  # a crash's torn tail
    log.write_bytes(b"no zstd at all")
    ran = run(capsys, "export", log, "--format", "jsonl")
    assert (ran.code, ran.out) == (3, "")
    assert "cut.jsonl.zstd" in ran.err


@pytest.mark.parametrize("format_", FORMATS)
def test_nothing_in_it_steers_a_terminal(tmp_path: Path, format_: str) -> None:
    text = "\x1b[2J\x1b]0;owned\x07\u202e"
    event = {
        "type": "user/message",
        "seq": 0,
        "time": 1,
        "surfaceOp": "append",
        "data": {
            "id": "m",
            "role": "user",
            "source": {"kind": "user"},
            "content": [{"type": "text", "text": text}],
        },
    }
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(event, ensure_ascii=False) + "\n")
    ours, theirs = pty.openpty()
    with process("export", log, "--format", format_, stdout=theirs) as child:
        os.close(theirs)
        got = b""
        try:
            while piece := os.read(ours, 65536):
                got += piece
        except OSError:  # the other end is closed
            pass
        assert child.wait(60) == 0
    os.close(ours)
    assert b"owned" in got
    assert not re.search("[\x00-\x09\x0b\x0c\x0e-\x1f\u202e]", got.decode())
