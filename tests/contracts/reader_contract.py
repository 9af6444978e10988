"""What `pipeline.ports.Reader` promises, whoever implements it."""

from __future__ import annotations

import pytest

from pipeline.errors import Retriable
from tests.contracts.deployment import PARTITIONS, Deployment, out, publish, take


class ReaderContract:
    def test_partitions_of_a_topic_and_of_none(self, ends: Deployment) -> None:
        reader = ends.reader()
        assert reader.partitions(ends.names.of("surface")) == PARTITIONS
        assert reader.partitions("no-such-topic") == 0

    def test_an_empty_partition(self, ends: Deployment) -> None:
        assert ends.reader().bounds(ends.names.of("events"), 0) == (0, 0)
        assert ends.read("events") == []

    def test_from_start_up_to_end(self, ends: Deployment) -> None:
        for n in range(6):
            ends.append(b"%d" % n)
        reader, topic = ends.reader(), ends.names.of("events")
        assert reader.bounds(topic, 0) == (0, 6)
        assert [r.value for r in reader.read(topic, 0, 2, 5)] == [b"2", b"3", b"4"]
        assert [r.value for r in reader.read(topic, 0, 4)] == [b"4", b"5"]
        assert list(reader.read(topic, 0, 6)) == []

    def test_the_end_is_that_of_the_call(self, ends: Deployment) -> None:
        ends.append(b"before")
        reader, topic = ends.reader(), ends.names.of("events")
        records = reader.read(topic, 0)
        first = next(records)
        ends.append(b"after")
        assert [first.value, *(r.value for r in records)] == [b"before"]

    def test_reading_ends_although_markers_follow_the_last_record(self, ends: Deployment) -> None:
        ends.append(b"x")
        sink = ends.opened()
        _, member = take(ends.source(), 1)
        publish(sink, [out(b"1")], {0: 1}, member)
        sink.begin().send(out(b"aborted"))
        sink.abandon()
        sink.open()
        assert ends.values("surface") == [b"1"]

    def test_two_reads_at_once(self, ends: Deployment) -> None:
        for n in range(3):
            ends.append(b"%d" % n)
        reader, topic = ends.reader(), ends.names.of("events")
        one, two = reader.read(topic, 0), reader.read(topic, 0)
        pairs = [(a.value, b.value) for a, b in zip(one, two, strict=True)]
        assert pairs == [(b"0", b"0"), (b"1", b"1"), (b"2", b"2")]

    def test_a_cursor_reads_in_slices_and_over_markers(self, ends: Deployment) -> None:
        ends.append(b"x")
        sink = ends.opened()
        _, member = take(ends.source(), 1)
        publish(sink, [out(b"1"), out(b"2")], {0: 1}, member)
        reader, topic = ends.reader(), ends.names.of("surface")
        first, end = reader.bounds(topic, 0)
        cursor = reader.cursor(topic, 0, first, end)
        found: list[bytes | None] = []
        for _ in range(100):
            if cursor.done:
                break
            found += [record.value for record in cursor.take(0.1)]
        assert found == [b"1", b"2"]
        assert cursor.position >= end
        cursor.close()
        cursor.close()
        assert reader.cursor(topic, 0, end, end).done

    def test_a_cursor_waits_no_longer_than_it_is_told(self, ends: Deployment) -> None:
        transaction = ends.opened().begin()
        transaction.send(out(b"undecided"))
        transaction.flush()
        cursor = ends.reader().cursor(ends.names.of("surface"), 0, 0, 1)
        assert cursor.take(0.01) == []
        assert not cursor.done
        transaction.commit()
        assert [record.value for record in cursor.take(5)] == [b"undecided"]
        cursor.close()

    def test_an_open_transaction_is_waited_for_and_not_read_over(self, ends: Deployment) -> None:
        transaction = ends.opened().begin()
        transaction.send(out(b"undecided"))
        transaction.flush()
        records = ends.reader().read(ends.names.of("surface"), 0)
        with pytest.raises(Retriable, match="cannot be read beyond"):
            list(records)
        transaction.commit()
        assert ends.values("surface") == [b"undecided"]

    def test_committed_of_a_group_and_of_none(self, ends: Deployment) -> None:
        ends.append(b"x", partition=1)
        source, sink = ends.source(), ends.opened()
        _, member = take(source, 1)
        publish(sink, [], {1: 1}, member)
        assert ends.committed() == {1: 1}
        assert ends.reader().committed("no-such-group", ends.names.of("events")) == {}
