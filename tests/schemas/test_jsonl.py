"""Log files: lines, headers, torn tails, damage; nothing is lost or altered without a report."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import jsonl
from schemas.jsonl import Damage, LogFile, LogLine, open_log
from tests.schemas.logs import frame, header, line, raw, row, turns, zstd


class Pipe(io.RawIOBase):
    """A stream that can only be read forwards, like standard input."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(buffer)


class Slow(io.BytesIO):
    """A stream that gives at most ``size`` bytes at once."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read(self, count: int | None = -1) -> bytes:
        return super().read(self._size if count is None or count < 0 else min(count, self._size))


def opened(data: bytes, **options: Any) -> tuple[list[LogLine], LogFile]:
    log = open_log(io.BytesIO(data), **options)
    return list(log.lines), log


def texts(lines: list[LogLine]) -> list[bytes]:
    return [entry.raw for entry in lines]


def codes(log: LogFile) -> list[str]:
    return [damage.code for damage in log.damage]


def test_lines_say_where_they_are_and_which_events_they_hold() -> None:
    chunks = {"turn": 1, "step": 1, "index": 0, "dt": [1, -1], "texts": ["a", "", "b"]}
    packed = line({"type": "text-chunks", "seq0": 1, "time0": 5, "data": chunks})
    lines = [header(version=0), row(0), packed, row(4, "turn/end")]
    got, log = opened(raw(lines))
    assert texts(got) == lines
    assert [(entry.number, entry.seq, entry.count) for entry in got] == [
        (1, None, 0),
        (2, 0, 1),
        (3, 1, 3),
        (4, 4, 1),
    ]
    assert [raw(lines)[entry.offset :][: len(entry.raw)] for entry in got] == lines
    assert (log.damage, log.end, log.session) == ([], len(raw(lines)), "s")


def test_zstd_is_told_by_its_bytes_and_may_come_through_a_pipe() -> None:
    lines = turns(3)
    log = open_log(io.BufferedReader(Pipe(zstd(lines))))
    assert texts(list(log.lines)) == lines
    assert (log.damage, log.end) == ([], None)
    log = open_log(io.BufferedReader(Pipe(raw(lines))))
    assert texts(list(log.lines)) == lines


@pytest.mark.parametrize(("name", "code"), [("a.jsonl.zstd", raw), ("a.jsonl", zstd)])
def test_a_name_that_lies_about_the_encoding_is_reported(
    tmp_path: Path, name: str, code: Any
) -> None:
    path = tmp_path / name
    path.write_bytes(code(turns()))
    log = open_log(path)
    assert texts(list(log.lines)) == turns()
    assert codes(log) == ["encoding-name"]


def test_lines_end_at_newlines_only() -> None:
    odd = line({"type": "a/b", "seq": 0, "time": 0, "data": "\u2028\u2029\x85\u000b\u000c"})
    lines = [header(), odd.replace(rb"\u000b", b" ").replace(rb"\f", b" "), row(1)]
    assert b"\xe2\x80\xa8" in lines[1]
    assert b"\xc2\x85" in lines[1]
    assert texts(opened(raw(lines))[0]) == lines


def test_crlf_blanks_key_order_and_number_forms_are_no_defects() -> None:
    odd = b' {"data":{},"time":1e1,"seq":1.0,"seq":1,"type":"turn/end"}\t\r'
    lines = [header() + b"\r", row(0) + b"\r", odd]
    got, log = opened(raw(lines))
    assert texts(got) == lines
    assert log.damage == []


def test_bytes_that_are_not_utf8_are_no_defect() -> None:
    bad = row(0, data="x").replace(b'"x"', b'"\xff"')
    got, log = opened(raw([header(), bad, row(1, "turn/end")]))
    assert got[1].raw == bad
    assert log.damage == []


def test_a_byte_order_mark_is_taken_off_and_reported() -> None:
    got, log = opened(b"\xef\xbb\xbf" + raw(turns()))
    assert texts(got) == turns()
    assert codes(log) == ["bom"]
    assert log.session == "s"


@pytest.mark.parametrize("tail", [b'{"type":"tu', row(6), b"\0" * 512, b"\xe2\x80"])
def test_a_last_line_without_its_newline_is_dropped_and_no_fault(tail: bytes) -> None:
    whole = raw(turns())
    got, log = opened(whole + tail)
    assert texts(got) == turns()
    assert log.damage == [
        Damage("line-torn", log.damage[0].message, 8, len(whole), False, len(whole) + len(tail))
    ]
    assert log.end == len(whole)


DEFECTS = {
    "not-json": b"{not json",
    "not-object": b"null",
    "seq-gap": row(9),
    "packed-row": line({"type": "text-chunks", "seq0": 6, "time0": 0, "data": {}}),
    "sources-range": row(6, sourceEventSeqs=[[3, 1]]),
    "envelope": row(6, ignorable=False),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_in_an_open_turn_is_a_torn_tail(defect: str) -> None:
    whole = raw(turns())
    got, log = opened(whole + raw([DEFECTS[defect], row(7), row(8)]))
    assert texts(got) == turns()
    [damage] = log.damage
    assert (damage.code, damage.fatal, damage.lost) == ("tail-dropped", False, True)
    assert (damage.line, damage.offset) == (8, len(whole))
    assert "3 lines dropped" in damage.message
    assert log.end == len(whole)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_before_a_turn_end_is_corruption_and_every_line_is_handed_on(defect: str) -> None:
    lines = [*turns(), DEFECTS[defect], row(7), row(8, "turn/end"), b"[]", row(9)]
    got, log = opened(raw(lines))
    assert texts(got) == lines
    assert [entry.number for entry in got] == list(range(1, len(lines) + 1))
    assert [raw(lines)[entry.offset :][: len(entry.raw)] for entry in got] == lines
    [damage] = log.damage
    assert (damage.code, damage.fatal, damage.lost, damage.line) == (defect, True, False, 8)


def test_a_turn_end_that_is_itself_out_of_order_is_corruption() -> None:
    got, log = opened(raw([*turns(1), row(9, "turn/end")]))
    assert len(got) == 5
    assert codes(log) == ["seq-gap"]


def test_what_is_held_back_moves_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schemas.torn.SPOOL", 100)
    lines = [*turns(1), b"?", *(row(seq, data="y" * 50) for seq in range(4, 40))]
    assert len(opened(raw(lines))[0]) == 4
    assert texts(opened(raw([*lines, row(40, "turn/end")]))[0]) == [*lines, row(40, "turn/end")]


def test_a_complete_frame_has_no_torn_tail() -> None:
    lines = [*turns(1), b"null"]
    data = frame(raw(lines[:1])) + frame(raw(lines[1:]))
    got, log = opened(data)
    assert texts(got) == lines
    assert codes(log) == ["not-object"]
    assert log.damage[0].fatal


def test_a_torn_frame_has_one() -> None:
    lines = turns(1)
    tail = frame(raw([b"?", row(4)]))
    got, log = opened(zstd(lines) + tail[:-3])  # cut inside the checksum
    assert texts(got) == lines
    assert codes(log) == ["frame-torn", "tail-dropped"]


def test_a_line_may_continue_in_the_next_frame_but_not_behind_the_last() -> None:
    lines = turns(1)
    body = raw(lines[1:])
    whole = frame(raw(lines[:1])) + frame(body[:70]) + frame(body[70:])
    assert texts(opened(whole)[0]) == lines
    got, log = opened(frame(raw(lines[:1])) + frame(body[:70]))
    assert texts(got) == lines[:2]
    assert codes(log) == ["frame-unterminated"]
    assert log.damage[0].fatal


def test_the_first_frame_is_the_header_alone() -> None:
    got, log = opened(frame(raw(turns())))
    assert texts(got) == turns()
    assert codes(log) == ["frame-header"]


def test_what_stands_behind_a_damaged_frame_is_lost_and_said() -> None:
    lines = turns(3)
    good = zstd(lines[:4])
    bad = bytearray(frame(raw(lines[4:7])))
    bad[-1] ^= 1
    data = good + bytes(bad) + frame(raw(lines[7:]))
    got, log = opened(data)
    assert texts(got) == lines[:4]
    [damage] = log.damage
    assert (damage.code, damage.fatal, damage.lost) == ("frame-corrupt", True, True)
    assert (damage.offset, damage.end) == (len(good), len(data))


def test_a_line_above_the_limit_is_reported_and_the_next_are_read() -> None:
    long = row(1, data="x" * 500)
    lines = [header(), row(0), long, row(2), row(3, "turn/end")]
    got, log = opened(raw(lines), max_line_bytes=200)
    assert texts(got) == [lines[0], lines[1], lines[3], lines[4]]
    assert [entry.number for entry in got] == [1, 2, 4, 5]
    [damage] = log.damage
    assert (damage.code, damage.line, damage.lost) == ("too-large", 3, True)
    assert raw(lines)[damage.offset : damage.end] == long


def test_a_line_above_the_limit_in_a_torn_tail() -> None:
    whole = raw(turns(1))
    _, log = opened(whole + raw([b"?", row(3, data="x" * 500), row(4)]), max_line_bytes=200)
    assert codes(log) == ["too-large", "tail-dropped"]
    assert log.end == len(whole)


def test_a_line_above_the_limit_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "CHUNK", 4096)
    file = io.BytesIO(raw([header(), row(0, data="x" * 8_000_000), row(1, "turn/end")]))
    tracemalloc.start()
    log = open_log(file, max_line_bytes=10_000)
    count = sum(1 for _ in log.lines)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2
    assert peak < 500_000


@pytest.mark.parametrize("data", [b"", b'{"type":"session","ver', header()])
def test_a_file_without_a_whole_line_is_empty(tmp_path: Path, data: bytes) -> None:
    for name, fatal in (("session.v4.jsonl", True), ("log.jsonl", False)):
        path = tmp_path / name
        path.write_bytes(data)
        log = open_log(path)
        assert list(log.lines) == []
        assert (log.damage[-1].code, log.damage[-1].fatal) == ("empty", fatal)


def test_a_file_without_header_is_no_harness_log_and_loses_nothing() -> None:
    lines = [row(0, extra=1), b"?", row(5), row(6)]
    got, log = opened(raw(lines)[:-1])  # not even the last newline is missed
    assert texts(got) == lines
    assert (log.damage, log.header, log.session) == ([], None, None)
    assert texts(opened(row(0))[0]) == [row(0)]
    assert opened(b"[?")[0] == []


@pytest.mark.parametrize("first", [row(0), b"\x1f\x8b\x08", b""])
def test_a_harness_name_without_header_is_reported(tmp_path: Path, first: bytes) -> None:
    for name, found in (("session.jsonl", ["header-missing"]), ("log.jsonl", [])):
        path = tmp_path / name
        path.write_bytes(raw([first, row(1)]))
        log = open_log(path)
        assert texts(list(log.lines)) == [first, row(1)]
        assert codes(log) == found


def test_a_fixture_without_any_seq_is_just_lines() -> None:
    body = [line({"type": "turn/start", "data": {"turn": at}}) for at in range(3)]
    got, log = opened(raw([header(), *body]))
    assert texts(got) == [header(), *body]
    assert [entry.seq for entry in got[1:]] == [None] * 3
    assert log.damage == []


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (header(version=5), "newer"),
        (line({"type": "session", "version": "0"}), "no version number"),
        (header(cwd="b"), "absolute"),
        (header(colour="red"), "colour"),
        (header(parentSession=None), "parentSession"),
        (header(version=0, seedLength=-1), "seedLength"),
    ],
)
def test_a_header_the_harness_refuses_is_reported_and_read(first: bytes, text: str) -> None:
    got, log = opened(raw([first, row(0), row(1, "turn/end")]))
    assert len(got) == 3
    assert log.damage[0].code == "header"
    assert log.damage[0].fatal
    assert any(text in damage.message for damage in log.damage)


def test_no_such_file_and_a_directory_are_damage(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.jsonl"):
        log = open_log(path)
        assert list(log.lines) == []
        assert codes(log) == ["unreadable"]
        assert str(path) in log.damage[0].message


# --- laws -----------------------------------------------------------------------------------------

BODIES = st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")), max_size=30)


@given(bodies=BODIES, size=st.integers(1, 50), limit=st.integers(1, 40))
def test_any_bytes_are_split_alike_however_they_arrive(
    bodies: list[bytes], size: int, limit: int
) -> None:
    data = raw([b"x" * 5, *bodies])
    log = open_log(Slow(data, size), max_line_bytes=limit)
    got = {entry.number: entry.raw for entry in log.lines}
    expected = dict(enumerate([b"x" * 5, *bodies], 1))
    expected = {number: text for number, text in expected.items() if len(text) <= limit}
    if got.get(1, b"").startswith(b"\xef\xbb\xbf"):
        got[1] = expected[1]
    assert got == expected


@given(cut=st.integers(0, 10_000), zipped=st.booleans())
def test_a_log_cut_anywhere_is_a_prefix_and_never_corrupt(cut: int, zipped: bool) -> None:
    lines = turns(4)
    data = zstd(lines) if zipped else raw(lines)
    got, log = opened(data[: cut % (len(data) + 1)])
    assert texts(got) == lines[: len(got)]
    assert {damage.code for damage in log.damage if damage.fatal} <= {"empty"}
    if got:
        assert not any(damage.fatal for damage in log.damage)


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_in_a_zstd_log_is_never_silent(at: int, bit: int) -> None:
    lines = turns(4)
    data = bytearray(zstd(lines))
    data[at % len(data)] ^= 1 << bit
    got, log = opened(bytes(data))
    assert texts(got) == lines or log.damage


@given(data=st.binary(max_size=300), prefix=st.sampled_from([b"", b"\x28\xb5\x2f\xfd", header()]))
def test_no_bytes_raise(data: bytes, prefix: bytes) -> None:
    got, log = opened(prefix + data)
    assert all(b"\n" not in entry.raw for entry in got)
    assert log.damage or b"".join(texts(got)).replace(b"\n", b"") == (prefix + data).replace(
        b"\n", b""
    )
