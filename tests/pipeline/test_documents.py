"""The document of a log file, field by field, and what becomes of files that are not as they should
be."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline.documents import fold_file, fold_lines, pages_lines
from pipeline.reading import Window, read_lines
from pipeline.simulate import SHAPES, simulate


def line(kind: str, seq: int | None, data: Any, **more: Any) -> bytes:
    numbered = {} if seq is None else {"seq": seq, "time": 1000 + seq}
    return json.dumps({"type": kind, **numbered, "data": data, **more}).encode()


def user(seq: int | None, text: str = "hi", op: Any = "append", **more: Any) -> bytes:
    content = [{"type": "text", "text": text}]
    message = {"id": f"m{seq}", "role": "user", "content": content, "source": {"kind": "user"}}
    return line("user/message", seq, message, surfaceOp=op, **more)


def replace(start: int, end: int) -> dict[str, Any]:
    return {"op": "replace", "start": start, "end": end}


HEADER = (
    b'{"type":"session","version":4,"id":"s-1","createdAt":5,"delegationDepth":0,"isSeeded":false}'
)
RUN = line("text-chunks", None, {})  # replaced by packed() below


def packed(seq: int | None, *texts: str) -> bytes:
    data = {"turn": 1, "step": 1, "index": 0, "dt": [1] * (len(texts) - 1), "texts": list(texts)}
    numbered = {} if seq is None else {"seq0": seq, "time0": 1000}
    return json.dumps({"type": "text-chunks", **numbered, "data": data}).encode()


def fold(*lines: bytes, **options: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(fold_lines(lines, **options))
    return document


def test_every_field_of_the_document() -> None:
    lines = [HEADER, user(0, "one"), user(1, "two"), user(2, "sum", replace(0, 1))]
    lines[3] = user(2, "sum", replace(0, 1), sourceEventSeqs=[0, 1])
    got = fold(*lines, line("todo/write", 3, {}), path="a/b.jsonl")
    assert list(got) == [
        "path", "session", "header", "events", "next_seq", "surface", "classification", "rows",
        "overview", "faults", "quality",
    ]  # fmt: skip
    assert (got["path"], got["session"], got["header"]) == ("a/b.jsonl", "s-1", json.loads(HEADER))
    assert (got["events"], got["next_seq"], got["classification"]) == (4, 4, "SSC-")
    surface = got["surface"]
    assert list(surface) == [
        "nodes", "generation", "messages", "message_seqs", "replacements",
    ]  # fmt: skip
    assert surface["nodes"] == surface["message_seqs"] == [2]
    assert surface["generation"] == 1
    assert surface["messages"][0]["content"][0]["text"] == "sum"
    assert surface["replacements"] == [{"seq": 2, "start": 0, "end": 1, "shadowed": [0, 1]}]
    assert [row["key"] for row in got["rows"]] == ["user:0", "user:1"]
    assert {row["session"] for row in got["rows"]} == {"s-1"}
    assert got["overview"]["session"] == "s-1"
    facts = {"reader:contextBreakdown": 1, "reader:todos": 1}  # not metered; no list
    assert (got["faults"], got["quality"]) == ([], facts)


def test_without_a_header_there_is_no_session_in_the_document_or_its_records() -> None:
    got = fold(user(0))
    assert (got["session"], got["header"], got["overview"]["session"]) == (None, None, None)
    assert got["rows"][0]["session"] is None


def test_opaque_json_is_the_logs_own_bytes() -> None:
    odd = b'{"id":"m","role":"user","content":[{"type":"x","n":1.50e400,"k": 9999999999999999999}]}'
    raw = b'{"type":"user/message","seq":0,"time":1,"surfaceOp":"append","data":' + odd + b"}"
    assert fold_lines([raw]).count(b'[{"type":"x","n":1.50e400,"k": 9999999999999999999}]') == 2


def test_a_faulted_line_is_named_and_the_next_is_folded() -> None:
    got = fold(user(0), b"{oops", user(1, op=replace(7, 7)), user(2), b'{"type":"x","data":{}}')
    faults = [(fault["line"], fault["seq"], fault["reason"]) for fault in got["faults"]]
    assert faults == [(2, None, "not-json"), (3, 1, "replace-start-not-found"),
                      (5, None, "seq-invalid")]  # fmt: skip
    assert (got["events"], got["next_seq"], got["classification"]) == (2, 3, "C-C")
    assert got["quality"]["fault"] == 3


def test_duplicates_and_gaps_are_not_counted_and_a_packed_row_counts_its_members() -> None:
    got = fold(user(0), user(0), packed(1, "a", "b", "c"), packed(2, "b", "c", "d"), user(9))
    assert (got["events"], got["next_seq"], got["classification"]) == (6, 10, "C--------C")
    assert [row["kind"] for row in got["rows"]] == ["user", "assistant", "gap", "user"]
    assert got["rows"][1]["data"]["blocks"] == [{"type": "text", "text": "abcd"}]
    assert got["quality"] == {"gap": 1}


def test_classification_begins_at_the_first_seq_of_a_window() -> None:
    assert fold(user(7), user(8))["classification"] == "CC"
    assert fold(b"]")["classification"] == ""
    assert fold(user(0), user(2**53 - 2))["classification"] is None


def test_offloaded_images_are_marked_on_the_surface_and_not_in_the_transcript() -> None:
    image = {"type": "image", "attachment": {"attachmentId": "sha256:0"}}
    message = {"id": "m", "role": "user", "content": [image, image], "source": {"kind": "user"}}
    lines = [
        line("user/message", 0, message, surfaceOp="append"),
        line("image/offload", 1, {"targets": [{"seq": 0, "imageIndexes": [1]}]}),
    ]
    got = fold(*lines)
    assert got["surface"]["messages"][0]["content"] == [image, {**image, "offloaded": True}]
    assert got["rows"][0]["data"]["content"] == [image, image]


# --- fixtures without seqs ------------------------------------------------------------------------


def test_a_file_in_which_no_row_has_a_seq_is_numbered() -> None:
    lines = [HEADER, user(None, "a"), packed(None, "x", "y"), user(None, "b"), b"nonsense"]
    got = fold(*lines)
    assert (got["events"], got["next_seq"]) == (4, 4)
    assert [(r["anchor_seq"], r["time"]) for r in got["rows"] if r["kind"] == "user"] == [
        (0, 0), (3, 0),
    ]  # fmt: skip
    assert [(fault["line"], fault["reason"]) for fault in got["faults"]] == [(5, "not-json")]


def test_one_row_without_a_seq_among_others_is_a_fault() -> None:
    got = fold(HEADER, user(None), user(0))
    assert [(fault["line"], fault["seq"]) for fault in got["faults"]] == [(2, None)]
    assert got["events"] == 1
    assert fold(user(0), user(None))["faults"][0]["line"] == 2


def test_a_seq_that_is_none_still_is_one_for_the_file() -> None:
    got = fold(user(None), user(None).replace(b'"data"', b'"seq":"x","data"'))
    assert (got["events"], len(got["faults"])) == (0, 2)


# --- windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_a_window_is_the_file_that_holds_only_those_events(shape: str) -> None:
    session = simulate(3, events=150, shape=shape)
    low, high = session.events // 3, 2 * session.events // 3
    got = fold(*session.lines, from_seq=low, to_seq=high)
    window, kept = Window(low, high), []
    for number, found in read_lines(enumerate(session.lines, 1)):
        if window.clip(found) == found and number > 1:
            kept.append(session.lines[number - 1])
    assert got["events"] == high - low + 1
    assert got["next_seq"] == high + 1
    whole_rows = fold(*session.lines[:1], *kept, from_seq=low)
    if whole_rows["events"] == got["events"]:  # no packed row stands across an end
        assert got == whole_rows


def test_a_packed_row_is_cut_at_both_ends() -> None:
    got = fold(packed(0, "a", "b", "c", "d", "e"), from_seq=1, to_seq=3)
    assert (got["events"], got["next_seq"], got["classification"]) == (3, 4, "---")
    assert got["rows"][0]["data"]["blocks"] == [{"type": "text", "text": "bcd"}]
    assert got["rows"][0]["time"] == 1001


def test_a_line_of_unknown_seq_is_none_of_the_events_asked_for() -> None:
    assert fold(b"{oops", user(0), user(1), to_seq=0)["faults"] == []


# --- strict ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (user(5), "seq-not-contiguous"),
        (user(1), "seq-not-contiguous"),
        (b"]", "not-json"),
        (user(2, op=None), "surfaceop-invalid"),
        (line("plugin/x", 2, {}), "unknown-required-event"),
        (line("todo/write", 2, {}, surfaceOp="append"), "surfaceop-on-log-only"),
    ],
)
def test_strict_stops_at_the_first_fault_and_describes_what_was_before(
    bad: bytes, reason: str
) -> None:
    before = fold(user(0), user(1))
    got = fold(user(0), user(1), bad, user(2), b"{", strict=True)
    assert [fault["reason"] for fault in got.pop("faults")] == [reason]
    assert before.pop("faults") == []
    assert got == before


def test_a_strict_window_begins_with_the_seq_asked_for() -> None:
    assert fold(user(4), user(5), strict=True, from_seq=4)["events"] == 2
    got = fold(user(5), user(6), strict=True, from_seq=4)
    assert (got["events"], got["faults"][0]["reason"]) == (0, "seq-not-contiguous")


# --- files ----------------------------------------------------------------------------------------


def fold_path(path: Path, **options: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(fold_file(path, **options))
    return document


def test_raw_and_zstd_files_have_the_document_of_their_lines(tmp_path: Path) -> None:
    session = simulate(1, events=60, shape="v3")
    raw, packed_file = tmp_path / "log.jsonl", tmp_path / "log.jsonl.zstd"
    raw.write_bytes(session.data)
    header, _, body = session.data.partition(b"\n")
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    packed_file.write_bytes(compressor.compress(header + b"\n") + compressor.compress(body))
    wanted = fold(*session.lines)
    for path in (raw, packed_file):
        assert fold_path(path) == wanted | {"path": str(path)}


@pytest.mark.parametrize("content", [None, b"", b"\x28\xb5\x2f\xfdgarbage"])
def test_an_unreadable_file_has_a_document_that_says_why(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "session.v4.jsonl"
    if content is not None:
        path.write_bytes(content)
    got = fold_path(path)
    assert (got["events"], got["rows"], got["session"]) == (0, [], None)
    assert {(fault["line"], fault["reason"]) for fault in got["faults"]} == {(0, "unreadable")}


def test_an_empty_file_of_no_harness_is_a_log_of_no_events(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.touch()
    assert fold_path(path) == fold() | {"path": str(path)}


def test_a_torn_tail_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(HEADER + b"\n" + user(0) + b"\n" + user(1)[:20])
    got = fold_path(path)
    assert (got["events"], got["faults"]) == (1, [])


def test_damage_of_a_harness_log_is_reported_once_and_ends_a_strict_run(tmp_path: Path) -> None:
    path = tmp_path / "session.v4.jsonl"
    end = line("turn/end", 2, {"turn": 1, "reason": {"kind": "completed"}})
    path.write_bytes(b"\n".join([HEADER, user(0), b"{oops", user(1), end, b""]))
    got = fold_path(path)
    assert [(fault["line"], fault["reason"]) for fault in got["faults"]] == [(3, "not-json")]
    assert got["events"] == 3
    assert fold_path(path, strict=True)["events"] == 1


def test_a_path_that_is_no_text_is_printed_all_the_same() -> None:
    assert "�" in fold(user(0), path="bad\udcff.jsonl")["path"]


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(user(0) + b"\n"))
    monkeypatch.setattr("sys.stdin", stream)
    assert fold_path(Path("-"))["events"] == 1


# --- pages ----------------------------------------------------------------------------------------


def test_pages_of_lines_are_those_of_the_accepted_events() -> None:
    lines = [HEADER, user(0), user(1, op=replace(9, 9)), user(1), user(2), packed(3, "a", "b")]
    got = [json.loads(page) for page in pages_lines(lines, max_messages=1)]
    assert got == [
        {"before": None, "first": 2, "last": 4, "count": 3, "append_messages": 1, "has_more": True},
        {"before": 2, "first": 0, "last": 1, "count": 2, "append_messages": 1, "has_more": False},
    ]
    assert json.loads(pages_lines(lines, before=1)[0])["last"] == 0
