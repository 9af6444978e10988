"""What `pipeline.ports.Source` promises, whoever implements it."""

from __future__ import annotations

import time

import pytest

from pipeline.errors import Retriable
from pipeline.ports import Member, Transaction
from tests.contracts.deployment import (
    PARTITIONS,
    Deployment,
    joined,
    out,
    publish,
    start_all,
    take,
    until,
)


def _finish(transaction: Transaction, member: Member) -> None:
    transaction.send_offsets({0: 1}, member)
    transaction.flush()
    transaction.commit()


class SourceContract:
    def test_first_member_gets_all_partitions(self, ends: Deployment) -> None:
        polled = joined(ends.source())
        assert polled.assigned == tuple(range(PARTITIONS))
        assert polled.revoked == ()
        assert polled.member.joined

    def test_nothing_comes_from_a_partition_before_it_is_started(self, ends: Deployment) -> None:
        for partition in range(PARTITIONS):
            ends.append(b"x", partition=partition)
        source = ends.source()
        assert joined(source).records == {}
        source.start(1, None)
        polled = until(source, lambda polled: bool(polled.records))
        assert set(polled.records) == {1}
        assert source.poll(0.3).records == {}

    def test_a_record_comes_as_it_was_written(self, ends: Deployment) -> None:
        ends.append(b"v", partition=2, key=b"\xff\x00", headers=[("h", b"1"), ("h", b"\xfe")])
        ends.append(None, partition=2, key=b"k")
        ends.append(b"", partition=2, key=None)
        records, _ = take(ends.source(), 3)
        assert [(r.key, r.value) for r in records] == [
            (b"\xff\x00", b"v"),
            (b"k", None),
            (None, b""),
        ]
        assert list(records[0].headers) == [("h", b"1"), ("h", b"\xfe")]
        assert [(r.topic, r.partition, r.offset) for r in records] == [
            (ends.names.of("events"), 2, offset) for offset in range(3)
        ]
        assert all(r.timestamp > 1_600_000_000_000 for r in records)

    def test_start_goes_where_it_is_told(self, ends: Deployment) -> None:
        for n in range(5):
            ends.append(b"%d" % n)
        source = ends.source()
        joined(source)
        source.start(0, 3)
        polled = until(source, lambda polled: bool(polled.records))
        assert [record.value for record in polled.records[0]] == [b"3", b"4"]
        source.start(0, 1)
        polled = until(source, lambda polled: bool(polled.records))
        assert [record.value for record in polled.records[0]] == [b"1", b"2", b"3", b"4"]

    def test_start_of_a_foreign_partition_is_ignored(self, ends: Deployment) -> None:
        source = ends.source()
        joined(source)
        source.start(PARTITIONS + 1, 0)
        assert source.poll(0.1).records == {}

    def test_committed_is_none_before_and_the_offset_after(self, ends: Deployment) -> None:
        ends.append(b"x")
        source, sink = ends.source(), ends.opened()
        _, member = take(source, 1)
        assert source.committed([0, 1]) == {0: None, 1: None}
        publish(sink, [out(b"y")], {0: 1}, member)
        assert source.committed([0, 1]) == {0: 1, 1: None}

    def test_committed_does_not_look_past_an_open_transaction(self, ends: Deployment) -> None:
        """Its offsets may yet count: neither the old ones nor none would be right."""
        ends.append(b"x")
        source, sink = ends.source(), ends.opened()
        _, member = take(source, 1)
        transaction = sink.begin()
        transaction.send_offsets({0: 1}, member)
        transaction.flush()
        with pytest.raises(Retriable):
            source.committed([0], 0.3)
        transaction.commit()
        assert source.committed([0]) == {0: 1}

    def test_lag_is_zero_once_all_is_read(self, ends: Deployment) -> None:
        for n in range(4):
            ends.append(b"%d" % n, partition=n % PARTITIONS)
        source = ends.source()
        start_all(source, joined(source).assigned)
        assert sum((source.lag() or {}).values()) == 4
        came = 0
        while came < 4:
            polled = until(source, lambda polled: bool(polled.records))
            came += sum(len(records) for records in polled.records.values())
        assert source.lag() == {0: 0, 1: 0, 2: 0}
        ends.append(b"more")
        assert source.lag() == {0: 1, 1: 0, 2: 0}

    def test_a_paused_partition_brings_nothing_until_it_is_started_again(
        self, ends: Deployment
    ) -> None:
        source = ends.source()
        start_all(source, joined(source).assigned)
        source.pause([0])
        ends.append(b"0")
        ends.append(b"1", partition=1)
        assert set(until(source, lambda polled: bool(polled.records)).records) == {1}
        assert source.poll(0.3).records == {}
        source.start(0, 0)
        assert set(until(source, lambda polled: bool(polled.records)).records) == {0}

    def test_a_member_is_current_until_the_group_moves_on(self, ends: Deployment) -> None:
        source = ends.source()
        member = joined(source).member
        assert source.current(member)
        source.abandon()
        assert not source.current(joined(source).member) or not source.current(member)

    def test_an_abandoned_consumer_joins_anew(self, ends: Deployment) -> None:
        ends.append(b"x")
        source = ends.source()
        assert len(take(source, 1)[0]) == 1
        source.abandon()
        source.abandon()
        lost: set[int] = set()
        got: set[int] = set()
        values: list[bytes | None] = []
        for _ in range(60):
            polled = source.poll(0.25)
            lost |= set(polled.revoked)
            got |= set(polled.assigned)
            start_all(source, polled.assigned)
            values += [record.value for records in polled.records.values() for record in records]
            if values:
                break
        assert lost == got == set(range(PARTITIONS))
        assert values == [b"x"]

    def test_second_member_takes_over_a_share(self, ends: Deployment) -> None:
        first, second = ends.source(), ends.source()
        start_all(first, joined(first).assigned)
        taken: set[int] = set()
        lost: set[int] = set()
        deadline = time.monotonic() + 60  # a busy machine may take a rebalance or two
        while time.monotonic() < deadline and not (taken and taken <= lost):
            taken |= set(second.poll(0.1).assigned)
            polled = first.poll(0.1)
            lost |= set(polled.revoked)
            start_all(first, polled.assigned)
        assert taken
        assert taken <= lost
        assert taken < set(range(PARTITIONS))

    def test_offsets_of_a_passed_generation_are_refused(self, ends: Deployment) -> None:
        ends.append(b"x")
        first, second, sink = ends.source(), ends.source(), ends.opened()
        _, before = take(first, 1)
        for _ in range(60):
            polled = second.poll(0.1)
            first.poll(0.1)
            if polled.assigned:
                break
        transaction = sink.begin()
        transaction.send(out(b"late"))
        with pytest.raises(Retriable):
            _finish(transaction, before)
        sink.abandon()
        sink.open()
        assert ends.values("surface") == []
        assert ends.committed() == {}

    def test_closing_gives_the_partitions_to_the_others(self, ends: Deployment) -> None:
        first, second = ends.source(), ends.source()
        joined(first)
        first.close()
        first.close()
        assert joined(second).assigned == tuple(range(PARTITIONS))
