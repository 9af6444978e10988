"""A log file is folded as it grows, and begun anew when it is another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.documents import fold_log
from pipeline.logtail import LogTail
from tests.pipeline.test_cli import USER
from tests.schemas.logs import header, raw, row, turns, zstd


def user(seq: int) -> bytes:
    return (USER % (seq, seq, b"text")).rstrip(b"\n")


def keys(tail: LogTail) -> list[str]:
    return [row.key for rows in tail.more() for row in rows if row.visibility == "transcript"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.v4.jsonl"


@pytest.mark.parametrize("write", [raw, zstd])
def test_only_what_is_new_changes_rows(path: Path, write: object) -> None:
    assert callable(write)
    path = path.with_name(path.name + (".zstd" if write is zstd else ""))
    lines = [header(), user(0), user(1)]
    path.write_bytes(write(lines))
    tail = LogTail(path)
    assert keys(tail) == ["user:0", "user:1"]
    assert keys(tail) == []
    path.write_bytes(write([*lines, user(2)]))
    assert keys(tail) == ["user:2"]
    assert (tail.began, tail.folding.events) == (1, 3)


@pytest.mark.parametrize(
    "after",
    [[header(), user(0)], [header(createdAt=8), user(0), user(1), user(2)], []],
    ids=["shorter", "another", "empty"],
)
def test_a_log_that_was_replaced_begins_anew(path: Path, after: list[bytes]) -> None:
    path.write_bytes(raw([header(), user(0), user(1)]))
    tail = LogTail(path)
    keys(tail)
    path.write_bytes(raw(after))
    assert keys(tail) == [f"user:{at}" for at in range(len(after) - 1)]
    assert tail.began == 2
    assert keys(tail) == []
    assert tail.began == 2


def test_a_log_that_is_gone_for_a_while_is_waited_for(path: Path) -> None:
    path.write_bytes(raw([header(), user(0)]))
    tail = LogTail(path)
    keys(tail)
    path.unlink()
    assert keys(tail) == []
    assert "No such file" in (tail.unread or "")
    path.write_bytes(raw([header(), user(0), user(1)]))
    assert (keys(tail), tail.began, tail.unread) == (["user:1"], 1, None)


def test_a_torn_tail_waits_and_what_it_holds_comes_once(path: Path) -> None:
    lines = [*turns(1), b"?", user(3)]
    path.write_bytes(raw(lines) + user(4)[:9])
    tail = LogTail(path)
    assert keys(tail) == []
    lines += [user(4), row(5, "turn/end")]
    path.write_bytes(raw(lines))
    assert keys(tail) == ["user:3", "user:4"]
    lines += [user(6)]
    path.write_bytes(raw(lines))
    assert (keys(tail), tail.began) == (["user:6"], 1)


def test_a_fixture_without_seqs_is_counted_as_it_grows(path: Path) -> None:
    path = path.with_name("fixture.jsonl")
    bare = user(0).replace(b'"seq":0,', b"")
    assert b'"seq"' not in bare
    tail = LogTail(path)
    for count in (1, 2, 3):
        path.write_bytes(raw([bare] * count))
        assert [row for rows in tail.more() for row in rows] == fold_log(path).rows()
    assert tail.began == 1


def test_a_later_generation_is_another_log(path: Path) -> None:
    path.write_bytes(raw([header(), user(0)]))
    tail = LogTail(path)
    keys(tail)
    newer = path.with_name("session.v5.jsonl")
    newer.write_bytes(raw([header(), user(0), user(1)]))
    tail.move(path)
    assert (keys(tail), tail.began) == ([], 1)
    tail.move(newer)
    assert (keys(tail), tail.began) == (["user:0", "user:1"], 2)
