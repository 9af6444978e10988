"""What the harness would say about rows and headers: defects, and refusals of whole logs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.rowcheck import Row, RowCheck, exact_json, header_faults, safe_integer
from tests.schemas.logs import header, line, row


def checked(rows: list[bytes], version: int = 4, **more: Any) -> tuple[list[Row], list[str]]:
    reports: list[str] = []
    head = json.loads(header(version=version, **more))
    check = RowCheck(head, lambda code, message: reports.append(code))
    got = [check.row(entry) for entry in rows]
    check.finish()
    fast = RowCheck(head, lambda code, message: None)
    for entry, slow in zip(rows, got, strict=True):
        seq = fast.plain(entry)  # the fast way knows only the rows that have nothing to say
        assert seq is None or (slow.seq, slow.count, slow.defect) == (seq, 1, None)
        if seq is None:
            fast.row(entry)
    return got, reports


def defects(rows: list[bytes], version: int = 4) -> list[str | None]:
    return [entry.defect for entry in checked(rows, version)[0]]


def packed(**more: Any) -> bytes:
    data = {"turn": 1, "step": 1, "index": 0, "dt": [1], "texts": ["a", "b"]}
    return line({"type": "text-chunks", "seq0": 0, "time0": 5, "data": {**data, **more}})


def test_a_packed_row_takes_as_many_seqs_as_it_has_members() -> None:
    (first, second), _ = checked([packed(), row(2)], version=0)
    assert (first.seq, first.count, first.defect) == (0, 2, None)
    assert second.defect is None


@pytest.mark.parametrize(
    "more",
    [
        {"texts": []},
        {"texts": ["a"]},
        {"texts": ["a", 1]},
        {"dt": [0.5]},
        {"dt": None},
        {"name": "x"},
        {"turn": None},
        {"extra": 1},
    ],
)
def test_a_malformed_packed_row_is_a_defect(more: dict[str, Any]) -> None:
    assert defects([packed(**more)], version=0) == ["packed-row"]


def test_packed_rows_are_of_old_versions() -> None:
    assert defects([packed()], version=1) == [None]
    assert defects([packed()], version=2) == ["packed-row"]


def test_tool_call_rows_name_their_call() -> None:
    data = {"turn": 1, "step": 1, "index": 0, "dt": [], "args": ["{"], "id": "c", "name": "n"}
    base = {"type": "tool-call-chunks", "seq0": 0, "time0": 5}
    assert defects([line({**base, "data": data})], 0) == [None]
    del data["name"]
    assert defects([line({**base, "data": data})], 0) == [None]
    del data["id"]
    assert defects([line({**base, "data": data})], 0) == ["packed-row"]


@pytest.mark.parametrize(
    ("sources", "holds"),
    [
        ([[0, 1], 3], True),
        ([[0, 0]], True),
        ([3, [4, 8]], True),
        ([1, [1, 3]], False),
        ([[3, 1]], False),
        ([[0, 10]], False),
        ([[0, 1, 2]], False),
        ([[0, -1]], False),
        ([[0, "1"]], False),
        ([5, 4, 4], True),  # no range: not looked at here
    ],
)
def test_source_ranges(sources: list[Any], holds: bool) -> None:
    rows = [*(row(seq) for seq in range(10)), row(10, sourceEventSeqs=sources)]
    assert defects(rows)[-1] == (None if holds else "sources-range")


ENVELOPES: list[bytes] = [
    row(0, extra=1),
    line({"type": "a/b", "seq": 0, "time": 0}),
    row(0, time=0.5),
    row(0, time=2**53),
    row(0, ignorable=False),
    line({"type": "", "seq": 0, "time": 0, "data": 1}),
]


@pytest.mark.parametrize("bad", ENVELOPES)
def test_an_envelope_fault_is_a_defect_since_version_3_and_refuses_older_logs(bad: bytes) -> None:
    assert defects([bad], version=3) == ["envelope"]
    got, reports = checked([bad, row(1)], version=2, isSeeded=False)
    assert [entry.defect for entry in got] == [None, None]
    assert reports == ["envelope"]


@pytest.mark.parametrize("good", [row(0, ignorable=True), row(0, time=5.0), row(0, time=-3)])
def test_odd_but_legal_envelopes(good: bytes) -> None:
    assert defects([good]) == [None]


def test_gaps_repeats_and_rows_without_seq() -> None:
    assert defects([row(0), row(2), row(3), row(3), line({"type": "a"})]) == [
        None,
        "seq-gap",
        None,
        "seq-gap",
        "seq-missing",
    ]
    assert defects([header()]) == ["envelope"]  # a second header


def test_inherited_counts_must_be_in_the_log() -> None:
    seed = row(0, "session/end-seed", data={"inherited": True})
    restart = row(0, "session/end-seed", data={})
    assert checked([row(0), row(1)], 0, seedLength=2)[1] == []
    assert checked([row(0), row(1)], 0, seedLength=3)[1] == ["seed-length"]
    assert checked([seed], 4, isSeeded=True)[1] == []
    assert checked([restart], 4, isSeeded=True)[1] == ["seed-marker"]
    assert checked([seed], 4, isSeeded=False)[1] == ["seed-marker"]
    assert checked([restart], 4, isSeeded=False)[1] == []


def test_retired_types_and_overlapping_compactions_of_version_4() -> None:
    system = row(0, "request/header", data={"header": {"system": "x"}})
    plain = row(0, "request/header", data={"header": {}})
    assert checked([system])[1] == ["retired-type"]
    assert checked([plain])[1] == []
    assert checked([system], 2)[1] == []
    assert checked([row(0, "tool/code-dispatch")])[1] == ["retired-type"]
    starts = [row(0, "compaction/start"), row(1, "compaction/start")]
    assert checked(starts)[1] == ["compaction-overlap"]
    between = [starts[0], row(1, "session/end-seed"), row(2, "compaction/start")]
    assert checked(between)[1] == []


def test_headers_by_version() -> None:
    assert header_faults(json.loads(header(version=0, seedLength=0, cwd="/a"))) == []
    assert header_faults(json.loads(header(version=4, origin="subagent"))) == []
    assert header_faults(json.loads(header(version=4, seedLength=0))) == [
        "unknown key 'seedLength'"
    ]
    assert header_faults({"type": "session", "version": 4}) == [
        "createdAt is missing",
        "delegationDepth is missing",
        "id is missing",
        "isSeeded is missing",
        "id is no string",
    ]


@pytest.mark.parametrize(
    ("value", "number"),
    [(5, 5), (5.0, 5), (-0.0, 0), (0.5, None), (True, None), ("1", None), (2**53, None)],
)
def test_integers_by_value(value: object, number: int | None) -> None:
    assert safe_integer(value) == number


@given(raw=st.binary(max_size=60))
def test_the_fast_way_takes_nothing_that_the_exact_way_would_not(raw: bytes) -> None:
    text = b'{"type":"a/b","seq":0,"time":0,"data":' + raw + b"}"
    if RowCheck(None, lambda code, message: None).plain(text) is not None:
        assert exact_json(text)["seq"] == 0
    checked([text])


def test_nearly_every_row_goes_the_fast_way() -> None:
    check = RowCheck(None, lambda code, message: None)
    rows = [row(0), row(1, surfaceOp="append"), row(2, sourceEventSeqs=[0, 1]), row(3, "turn/end")]
    assert [check.plain(entry) for entry in rows] == [0, 1, 2, 3]
    assert check.plain(row(4, sourceEventSeqs=[[0, 3]])) is None


def test_depth_is_not_json() -> None:
    assert defects([b"[" * 100_000]) == ["not-json"]
