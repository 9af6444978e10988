"""What `pipeline.ports.Sink` and `Transaction` promise, whoever implements them."""

from __future__ import annotations

import pytest

from pipeline import limits
from pipeline.errors import Fenced, Poison, Retriable
from pipeline.ports import Member
from tests.contracts.deployment import Deployment, out, publish, take


class SinkContract:
    def test_outputs_and_offsets_land_together(self, ends: Deployment) -> None:
        ends.append(b"x")
        source, sink = ends.source(), ends.opened()
        _, member = take(source, 1)
        transaction = sink.begin()
        transaction.send(out(b"one"))
        transaction.send_offsets({0: 1}, member)
        transaction.flush()
        assert ends.reader().bounds(ends.names.of("surface"), 0)[1] > 0
        transaction.commit()
        assert ends.values("surface") == [b"one"]
        assert ends.committed() == {0: 1}

    def test_a_record_goes_where_and_as_it_is_told(self, ends: Deployment) -> None:
        sink = ends.opened()
        ends.append(b"x")
        _, member = take(ends.source(), 1)
        publish(
            sink,
            [out(b"v", partition=2, role="transcript"), out(None, partition=1, role="state")],
            {0: 1},
            member,
        )
        (row,) = ends.read("transcript", 2)
        assert (row.key, row.value) == (b"s", b"v")
        assert list(row.headers) == [("session", b"s"), ("epoch", b"0")]
        assert ends.values("state", 1) == [None]

    def test_flush_tells_where_the_states_stand(self, ends: Deployment) -> None:
        transaction = ends.opened().begin()
        for record in (
            out(b"1", role="state"),
            out(b"2"),
            out(b"3", role="state"),
            out(b"4", partition=2, role="state"),
        ):
            transaction.send(record)
        positions = transaction.flush()
        transaction.commit()
        assert positions == {
            partition: ends.read("state", partition)[-1].offset + 1 for partition in (0, 2)
        }

    def test_dead_letters_take_the_partition_modulo(self, ends: Deployment) -> None:
        ends.append(b"x")
        sink = ends.opened()
        _, member = take(ends.source(), 1)
        publish(sink, [out(b"bad", partition=2, role="deadletter")], {0: 1}, member)
        assert ends.values("deadletter", 0) == [b"bad"]

    def test_an_abandoned_transaction_never_was(self, ends: Deployment) -> None:
        ends.append(b"x")
        source, sink = ends.source(), ends.opened()
        _, member = take(source, 1)
        transaction = sink.begin()
        transaction.send(out(b"lost"))
        transaction.send_offsets({0: 1}, member)
        transaction.flush()
        sink.abandon()
        sink.open()
        assert source.committed([0]) == {0: None}
        transaction = sink.begin()
        transaction.send(out(b"kept"))
        transaction.flush()
        transaction.commit()
        assert ends.values("surface") == [b"kept"]
        assert source.committed([0]) == {0: None}

    def test_a_twin_fences_the_elder(self, ends: Deployment) -> None:
        elder = ends.opened("same")
        transaction = elder.begin()
        transaction.send(out(b"elder"))
        transaction.flush()
        younger = ends.opened("same")
        with pytest.raises(Fenced):
            transaction.commit()
        elder.abandon()
        transaction = younger.begin()
        transaction.send(out(b"younger"))
        transaction.flush()
        transaction.commit()
        assert ends.values("surface") == [b"younger"]

    def test_two_names_do_not_disturb_each_other(self, ends: Deployment) -> None:
        one, two = ends.opened("one"), ends.opened("two")
        first, second = one.begin(), two.begin()
        first.send(out(b"1"))
        second.send(out(b"2", partition=1))
        second.flush()
        second.commit()
        assert ends.values("surface", 1) == [b"2"]
        first.flush()
        first.commit()
        assert ends.values("surface", 0) == [b"1"]

    @pytest.mark.parametrize("member", [Member(-1, "m"), Member(3, ""), Member(-1, "")])
    def test_a_member_that_never_joined_is_refused(self, ends: Deployment, member: Member) -> None:
        transaction = ends.opened().begin()
        with pytest.raises(Retriable):
            transaction.send_offsets({0: 1}, member)

    def test_a_record_above_the_limit_is_poison(self, ends: Deployment) -> None:
        transaction = ends.opened().begin()
        with pytest.raises(Poison, match="above the limit"):
            transaction.send(out(b"x" * (limits.MAX_OUTPUT_RECORD_BYTES + 1)))

    def test_a_record_of_twice_the_longest_line_is_taken(self, ends: Deployment) -> None:
        transaction = ends.opened().begin()
        value = bytes(2 * limits.MAX_LINE_BYTES)
        transaction.send(out(value))
        transaction.flush()
        transaction.commit()
        assert ends.values("surface") == [value]

    def test_nothing_begins_before_open_or_after_abandon(self, ends: Deployment) -> None:
        sink = ends.sink("a")
        with pytest.raises(Retriable):
            sink.begin()
        sink.open()
        sink.abandon()
        sink.abandon()
        with pytest.raises(Retriable):
            sink.begin()
