"""fold_batch: what is refused and how, where outputs go, and that nothing happens to its input."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changes import SessionOverview, SurfaceChange
from operators.session import Session
from pipeline import limits
from pipeline.batch import BatchResult, fold_batch
from pipeline.ports import InRecord, OutRecord
from pipeline.simulate import simulate
from pipeline.state import split_state_key
from schemas import snapshot
from schemas.codec import decode_change
from schemas.deadletter import DeadLetter, decode_dead_letter
from schemas.outbound import headers_of, key_of

HEADER = b'{"type":"session","version":4,"id":"s","createdAt":7,"cwd":"/"}'


def event(seq: int, kind: str = "session/title", **data: Any) -> bytes:
    return msgspec.json.encode({"seq": seq, "time": 1, "type": kind, "data": data})


def record(
    value: bytes | None, key: bytes | None = b"s", *, offset: int = 0, headers: Any = ()
) -> InRecord:
    return InRecord("sessions.events", 4, offset, 99, key, value, tuple(headers))


def roles(result: BatchResult) -> list[str]:
    return [output.role for output in result.outputs]


def letters(result: BatchResult) -> list[DeadLetter]:
    values = [output.value for output in result.outputs if output.role == "deadletter"]
    return [decode_dead_letter(value) for value in values if value is not None]


def overview(result: BatchResult) -> SessionOverview:
    (found,) = [output for output in result.outputs if output.role == "overview"]
    assert found.value is not None
    change = decode_change(found.value)
    assert isinstance(change, SessionOverview)
    return change


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (record(HEADER, key=None), "no-session"),
        (record(HEADER, key=b""), "no-session"),
        (record(HEADER, key=b"s\xff"), "no-session"),
        (record(HEADER, key=b"s" * (limits.MAX_SESSION_CHARS + 1)), "no-session"),
        (record(HEADER, key=b"other"), "key-mismatch"),
        (record(None), "not-json"),
        (record(b"{"), "not-json"),
        (record(b"\xc3\x01abc"), "not-avro"),
        *(
            (record(HEADER, headers=[("epoch", value)]), "bad-envelope")
            for value in (b"", b"-1", b"1.0", b" 1", b"+1", b"x", b"\xc2\xb2", None, b"2147483648")
        ),
    ],
)
def test_a_bad_record_is_a_dead_letter_with_its_place(bad: InRecord, reason: str) -> None:
    result = fold_batch([bad], {})
    (letter,) = letters(result)
    assert letter.reason == reason
    assert (letter.topic, letter.partition, letter.offset, letter.timestamp) == (
        "sessions.events",
        4,
        0,
        99,
    )
    assert (letter.key, letter.value) == (bad.key, bad.value)
    assert [(header.key, header.value) for header in letter.headers] == list(bad.headers)
    assert result.outputs[-1].key == bad.key
    assert result.outputs[-1].headers == []
    assert result.counts[f"refused.{reason}"] == 1


def test_a_record_without_a_session_touches_none() -> None:
    result = fold_batch([record(HEADER, key=None)], {})
    assert roles(result) == ["deadletter"]
    assert result.states == {}


def test_a_fault_is_counted_in_its_session_and_the_next_record_folds() -> None:
    lines = [record(HEADER), record(event(0, title="a")), record(b"?"), record(event(1, title="b"))]
    result = fold_batch(lines, {})
    assert overview(result).title == "b"
    assert overview(result).quality == {"fault": 1}
    assert [letter.session for letter in letters(result)] == ["s"]


def test_key_mismatch_leaves_the_session_without_that_header() -> None:
    result = fold_batch([record(HEADER, key=b"t"), record(event(0), key=b"t")], {})
    assert overview(result).cwd is None
    assert overview(result).session == "t"


def test_the_last_epoch_header_counts_and_its_absence_is_zero() -> None:
    headers = [("epoch", b"9"), ("x", b"y"), ("epoch", b"002")]
    result = fold_batch([record(event(0), headers=headers)], {})
    assert overview(result).epoch == 2
    assert overview(fold_batch([record(event(0))], {})).epoch == 0


def test_a_higher_epoch_resets_and_a_lower_one_is_stale() -> None:
    first = fold_batch([record(HEADER), record(event(0, title="old")), record(event(1))], {})
    new = [
        record(event(0, title="new"), headers=[("epoch", b"1")]),
        record(event(2, title="stale")),
    ]
    second = fold_batch(new, first.states)
    assert second.counts["stale"] == 1
    assert overview(second).title == "new"
    assert overview(second).next_seq == 1
    resets = [decode_change(out.value or b"") for out in second.outputs if out.role == "surface"]
    assert [(c.op, c.seq, c.epoch) for c in resets if isinstance(c, SurfaceChange)] == [
        ("reset", -1, 1)
    ]


def test_a_reset_leaves_no_segment_of_the_old_generation() -> None:
    """The state topic then holds exactly what the new generation's head counts."""
    lines = simulate(5, events=5000, features=()).lines
    store: dict[str, dict[str, bytes]] = {}

    def keep(result: BatchResult) -> None:
        for session, name, value in result.segments:
            held = store.setdefault(session, {})
            if value is None:
                held.pop(name, None)
            else:
                held[name] = value

    states: dict[str, Session] = {}
    for n in range(0, len(lines), 1000):
        part = [record(line, b"sim-00000005") for line in lines[n : n + 1000]]
        result = fold_batch(part, states)
        states.update(result.states)
        keep(result)
    assert len(store["sim-00000005"]) > 1, "the session is too small to have segments apart"
    keep(fold_batch([record(event(0), b"sim-00000005", headers=[("epoch", b"1")])], states))
    restored = snapshot.load("sim-00000005", store["sim-00000005"])
    assert (restored.epoch, restored.next_seq) == (1, 1)


def test_outputs_go_to_the_partition_of_the_input_with_key_and_headers() -> None:
    lines = simulate(3, events=60).lines
    result = fold_batch([record(line, b"sim-00000003") for line in lines], {})
    assert {output.partition for output in result.outputs} == {4}
    for output in result.outputs:
        if output.role in ("state", "deadletter"):
            continue
        assert output.value is not None
        change = decode_change(output.value)
        assert (output.key, output.headers) == (key_of(change), headers_of(change))


def test_state_records_follow_their_session_and_restore_it() -> None:
    lines = [record(line, b"sim-00000003") for line in simulate(3, events=60, features=()).lines]
    result = fold_batch(lines, {})
    states = [out for out in result.outputs if out.role == "state"]
    assert states == result.outputs[-len(states) :]
    segments = {split_state_key(out.key or b"")[1]: out.value or b"" for out in states}
    again = snapshot.load("sim-00000003", segments)
    assert again.overview() == result.states["sim-00000003"].overview()
    assert [name for name, _ in states[0].headers] == ["session", "epoch", "seq"]


def test_one_batch_publishes_a_row_once() -> None:
    lines = [record(line, b"sim-00000008") for line in simulate(8, events=120).lines]
    result = fold_batch(lines, {})
    rows = [output.key for output in result.outputs if output.role == "transcript"]
    assert len(rows) == len(set(rows))
    assert roles(result).count("overview") == 1


def test_redelivery_publishes_nothing_and_is_counted() -> None:
    lines = [record(line, b"sim-00000008") for line in simulate(8, events=30).lines]
    first = fold_batch(lines, {})
    again = fold_batch([line for line in lines if b'"seq"' in (line.value or b"")], first.states)
    assert [out for out in again.outputs if out.role != "deadletter"] == []
    assert again.states == {}
    assert again.counts["redelivered"] > 20


def test_the_states_given_are_only_read() -> None:
    lines = [record(line, b"sim-00000009") for line in simulate(9, events=80).lines]
    first = fold_batch(lines[:40], {})
    before = first.states["sim-00000009"].overview()
    one = fold_batch(lines[40:], first.states)
    two = fold_batch(lines[40:], first.states)
    assert first.states["sim-00000009"].overview() == before
    assert one.outputs == two.outputs


def test_a_row_above_the_limit_is_cut() -> None:
    content = [{"type": "text", "text": "x" * 50_000}]
    data = {"id": "m", "role": "user", "content": content, "source": {"kind": "user"}}
    line = msgspec.json.encode(
        {"seq": 0, "time": 1, "type": "user/message", "surfaceOp": "append", "data": data}
    )
    (row,) = [
        out for out in fold_batch([record(line)], {}, 20_000).outputs if out.role == "transcript"
    ]
    assert len(row.value or b"") <= 20_000


def test_a_record_too_large_for_a_dead_letter_keeps_its_place() -> None:
    bad = record(b"x" * (2 * limits.MAX_LINE_BYTES + 1), key=b"k" * 10, offset=7)
    (letter,) = letters(fold_batch([bad], {}))
    assert (letter.offset, letter.value, letter.key) == (7, None, b"k" * 10)


@given(
    st.lists(
        st.builds(
            InRecord,
            st.just("e"),
            st.just(0),
            st.integers(0, 100),
            st.integers(-1, 2**50),
            st.none() | st.binary(max_size=4) | st.just(b"s"),
            st.none() | st.binary(max_size=60) | st.sampled_from([HEADER, event(0), event(1)]),
            st.lists(
                st.tuples(
                    st.sampled_from(["epoch", "x"]),
                    st.none() | st.binary(max_size=3) | st.sampled_from([b"0", b"1"]),
                ),
                max_size=2,
            ).map(tuple),
        ),
        max_size=8,
    )
)
def test_no_record_raises_and_each_split_ends_alike(records: list[InRecord]) -> None:
    whole = fold_batch(records, {})
    states: dict[str, Session] = {}
    parts: list[OutRecord] = []
    for one in records:
        result = fold_batch([one], states)
        states.update(result.states)
        parts += result.outputs

    def last(outputs: list[OutRecord], role: str) -> dict[bytes | None, bytes | None]:
        return {out.key: out.value for out in outputs if out.role == role}

    def all_of(outputs: list[OutRecord], role: str) -> list[tuple[bytes | None, bytes | None]]:
        return sorted(((out.key, out.value) for out in outputs if out.role == role), key=repr)

    assert last(parts, "overview") == last(whole.outputs, "overview")
    assert all_of(parts, "deadletter") == all_of(whole.outputs, "deadletter")
    assert all_of(parts, "surface") == all_of(whole.outputs, "surface")
