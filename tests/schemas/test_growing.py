"""A log that grows is read on from where its reading ended, and only if it is the same one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.growing import Place, holds
from schemas.jsonl import LogFile, LogLine, open_log
from tests.schemas.logs import header, raw, row, turns, zstd


def walked(path: Path, after: Place | None = None) -> tuple[list[LogLine], LogFile]:
    log = open_log(path, after=after)
    return list(log.lines), log


@pytest.mark.parametrize("zipped", [False, True])
def test_only_what_is_new_is_read(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / ("session.v4.jsonl" + (".zstd" if zipped else ""))
    data = zstd if zipped else raw
    path.write_bytes(data(turns(2)))
    first, log = walked(path)
    path.write_bytes(path.read_bytes() + zstd_more(3) if zipped else raw(turns(3)))
    rest, more = walked(path, log.place)
    whole, _ = walked(path)
    assert more.resumed
    assert [*first, *rest] == whole
    assert len(rest) == 3
    assert (more.session, more.header) == ("s", log.header)
    again, last = walked(path, more.place)
    assert (again, last.resumed, last.damage) == ([], True, [])


def zstd_more(turn: int) -> bytes:
    """The frames of that turn alone."""
    return zstd(turns(turn))[len(zstd(turns(turn - 1))) :]


@settings(max_examples=60)  # each makes files
@given(cuts=st.lists(st.integers(1, 2_000), max_size=8), zipped=st.booleans())
def test_however_it_grows_the_lines_are_those_of_the_whole(cuts: list[int], zipped: bool) -> None:
    lines = [*turns(2), b"?", row(7), row(8, "turn/end"), *[row(at) for at in range(9, 20)]]
    data = zstd(lines) if zipped else raw(lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("session.v4.jsonl" + (".zstd" if zipped else ""))
        place, found = None, dict[int, LogLine]()
        for cut in [*sorted(cut for cut in cuts if cut < len(data)), len(data)]:
            path.write_bytes(data[:cut])
            read, log = walked(path, place)
            place = log.place
            assert not log.resumed or not found.keys() & {line.number for line in read}
            found.update((line.number, line) for line in read)
        whole, _ = walked(path)
    assert list(found.values()) == whole


@pytest.mark.parametrize(
    "after",
    [turns(1), [header("t"), *turns(3)[1:]], [*turns(2)[:-1], row(5, "x/y"), *turns(4)[7:]]],
)
def test_another_log_in_its_place_is_read_from_its_start(
    tmp_path: Path, after: list[bytes]
) -> None:
    path = tmp_path / "session.v4.jsonl"
    path.write_bytes(raw(turns(2)))
    _, log = walked(path)
    assert log.place is not None
    assert holds(path, log.place)
    path.write_bytes(raw(after))
    assert not holds(path, log.place)
    read, more = walked(path, log.place)
    assert not more.resumed
    assert [line.raw for line in read] == after
    path.unlink()
    assert not holds(path, log.place)


def test_a_file_that_another_took_the_name_of_is_another(tmp_path: Path) -> None:
    path = tmp_path / "session.v4.jsonl"
    path.write_bytes(raw(turns(2)))
    _, log = walked(path)
    (tmp_path / "new").write_bytes(raw(turns(3)))
    (tmp_path / "new").replace(path)
    assert not walked(path, log.place)[1].resumed


def test_where_something_is_torn_nothing_is_gone_on_from(tmp_path: Path) -> None:
    path = tmp_path / "session.v4.jsonl"
    path.write_bytes(raw([*turns(1), b"?", row(4)]))  # held until a turn/end follows
    assert walked(path)[1].place is None
    path.write_bytes(b"")
    assert walked(path)[1].place is None
    frames = tmp_path / "session.v4.jsonl.zstd"
    frames.write_bytes(zstd(turns(2))[:-3])
    assert walked(frames)[1].place is None
    row_alone = tmp_path / "log.jsonl"
    row_alone.write_bytes(row(0) + b"\n" + row(1))  # the last one was handed on without its end
    assert walked(row_alone)[1].place is None
