"""Parking (streams.md §2): whatever parked a session, put right it ends as the clean log does, and
given up as a fold ends that is not strict; batches, restarts, repeats and other sessions do not
show, and a fresh fold of the same events says the same."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipeline.replay import Decision
from pipeline.simulate import SHAPES, simulate
from tests.pipeline.parked_partition import Partition, letters, reasons, seen_by_readers

S, OTHER = "sim-00000007", "sim-00000008"
KINDS = ("unreadable", "marker", "lost", "late", "again", "header")


class Damaged:
    """A simulated log, and what came of it: ``wire`` as sent, ``settled`` the same with what came
    late at its place, ``right`` by line sent the line it should have been."""

    def __init__(self, seed: int, shape: str, faults: list[tuple[int, str]]) -> None:
        self.lines = simulate(7, events=25, shape=shape, features=()).lines
        self.wire: list[bytes] = []
        self.settled: list[bytes] = []
        self.lost: list[bytes] = []
        self.right: dict[bytes, bytes] = {}
        random, late = Random(seed), list[bytes]()
        kinds = {place % len(self.lines): kind for place, kind in faults}
        self.kinds = set(kinds.values())
        for n, line in enumerate(self.lines):
            record, kind = json.loads(line), kinds.get(n)
            event = record["type"] != "session"
            if kind == "lost" and event:
                self.lost.append(line)
                continue
            if kind == "late" and event:
                self.settled.append(line)
                late.append(line)
                continue
            sent = self._damaged(line, record, kind, random)
            self.right[sent] = line
            self.settled.append(sent)
            self.wire += [sent, *([sent] if kind == "again" else []), *late]
            late.clear()
        self.wire += late
        self.right.update((line, line) for line in self.lines)

    def _damaged(
        self, line: bytes, record: dict[str, object], kind: str | None, r: Random
    ) -> bytes:
        if kind == "unreadable":
            return line[: r.randrange(1, len(line))] + b"%d" % len(self.wire)
        if kind == "marker" and "seq" in record:
            return json.dumps(record | {"surfaceOp": 7}).encode()
        if kind == "header" and record["type"] == "session":
            return json.dumps(record | {"id": "another"}).encode()
        return line


damaged = st.builds(
    Damaged,
    st.integers(0, 999),
    st.sampled_from(SHAPES),
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from(KINDS)), max_size=5),
)


def strict(session: str) -> bool:
    return session == S


def fed(log: Damaged) -> Partition:
    """That session, strict, and in turn with it one that is not, which has a fault of its own."""
    partition = Partition(strict)
    beside = [*simulate(8, events=30).lines, b"{"]
    for line in log.wire:
        partition.feed(S, [line])
        partition.feed(OTHER, [beside.pop(0)] if beside else [])
    partition.feed(OTHER, beside)
    return partition


def replay(partition: Partition, data: st.DataObject, right: dict[bytes, bytes] | None) -> None:
    """Rounds until the session is folded on: interrupted, sent twice, in batches of any size. With
    ``right`` what is in the way is put right, else it is given up."""
    for _ in range(300):
        partition.fold(data.draw(st.sampled_from((1, 3, 1000)), label="batch"))
        parked = partition.state(S).parked
        if parked is None:
            return
        decision = Decision()
        if right is None:
            decision = Decision(skip=parked.at is not None)
        elif parked.at is not None and parked.reason != "seq-not-contiguous":
            decision = Decision(fix=right[partition.events[parked.at].value or b""])
        sent = partition.plan(S, decision)
        if data.draw(st.integers(0, 3), label="interrupted") == 0:
            sent = sent[: data.draw(st.integers(0, len(sent)), label="after")]
        if data.draw(st.integers(0, 3), label="twice") == 0:
            sent += sent
        partition.sends(sent)
    raise AssertionError(f"still parked: {partition.state(S).parked}")


def alone(session: str, lines: list[bytes]) -> tuple[object, ...]:
    """What readers see of a log by itself, folded as it comes."""
    partition = Partition(lambda _: False)
    partition.feed(session, lines)
    partition.fold()
    return seen_by_readers(partition.outputs, session)


def proven(partition: Partition) -> None:
    """A fresh fold of the same events says the same, to the byte, dead letters included."""
    afresh = partition.afresh().outputs
    for session in (S, OTHER):
        assert seen_by_readers(afresh, session) == seen_by_readers(partition.outputs, session)
    assert sorted(map(repr, letters(afresh))) == sorted(map(repr, letters(partition.outputs)))
    assert seen_by_readers(afresh, OTHER) == alone(OTHER, [*simulate(8, events=30).lines, b"{"])


@given(damaged, st.data())
@settings(max_examples=60)
def test_put_right_it_is_the_clean_log(log: Damaged, data: st.DataObject) -> None:
    # what is missing before a line without a seq shows only when that line is given up
    assume("unreadable" not in log.kinds or not log.kinds & {"lost", "late"})
    partition = fed(log)
    partition.feed(S, log.lost)  # sent after all
    replay(partition, data, log.right)
    assert seen_by_readers(partition.outputs, S) == alone(S, log.lines)
    proven(partition)


@given(damaged, st.data())
@settings(max_examples=60)
def test_given_up_it_is_a_fold_that_is_not_strict(log: Damaged, data: st.DataObject) -> None:
    partition = fed(log)
    replay(partition, data, None)
    assert seen_by_readers(partition.outputs, S) == alone(S, log.settled)
    proven(partition)


@given(damaged, st.data())
@settings(max_examples=60)
def test_a_batch_does_not_show_while_it_is_parked(log: Damaged, data: st.DataObject) -> None:
    partition = fed(log)
    partition.fold(data.draw(st.integers(1, 20)))
    proven(partition)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_clean_log_never_parks(shape: str) -> None:
    lines = simulate(7, events=150, shape=shape).lines
    partition = Partition(strict)
    partition.feed(S, [*lines, *lines])
    partition.fold()
    assert reasons(partition.outputs) == []
    assert seen_by_readers(partition.outputs, S) == alone(S, lines)
