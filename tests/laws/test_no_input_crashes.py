"""Law 11: arbitrary bytes, JSON and Avro yield changes or faults, never an exception."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from operators.events import Event, Fault, Header
from operators.session import Session
from pipeline.batch import fold_batch
from pipeline.documents import fold_lines
from pipeline.ports import InRecord
from schemas.inbound import read_line, read_value
from tests.strategies import any_logs, arbitrary_lines, mutated, simulated_logs, splits

headers = st.lists(
    st.tuples(
        st.sampled_from(("epoch", "session", "x")),
        st.sampled_from((b"0", b"1", b"-1", b"x", b"", None, b"9" * 30)) | st.binary(max_size=4),
    ),
    max_size=2,
)
values = (
    st.none()
    | arbitrary_lines
    | st.binary(max_size=60)
    | st.binary(max_size=30).map(lambda tail: b"\xc3\x01" + tail)
    | st.binary(max_size=30).map(lambda tail: b"\x00" + tail)
)
keys = st.none() | st.sampled_from((b"s-1", b"s-1", b"", b"\xff")) | st.binary(max_size=3)
odd_records = st.lists(st.tuples(keys, values, headers), max_size=6)


@given(arbitrary_lines | st.binary())
def test_no_line_crashes_its_reader(line: bytes) -> None:
    assert isinstance(read_line(line), Event | Header | Fault)
    assert isinstance(read_value(line), Event | Header | Fault)


@given(any_logs | mutated(simulated_logs), st.booleans())
def test_no_input_crashes(log: list[bytes], strict: bool) -> None:
    document = json.loads(fold_lines(log, strict=strict))
    if not strict:
        faults = sum(document["quality"].get(fact, 0) for fact in ("fault",))
        assert faults == len(document["faults"])


@given(st.data(), any_logs)
def test_no_record_crashes_a_batch(data: st.DataObject, log: list[bytes]) -> None:
    batch = [
        InRecord("sessions.events", 0, number, 0, b"s-1", line) for number, line in enumerate(log)
    ]
    for key, value, head in data.draw(odd_records, label="odd records"):
        at = data.draw(st.integers(0, len(batch)), label="place")
        batch.insert(at, InRecord("sessions.events", 0, at, 0, key, value, head))
    states: dict[str, Session] = {}
    for part in data.draw(splits(batch), label="batches"):
        states.update(fold_batch(part, states).states)
