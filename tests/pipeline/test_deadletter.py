"""Dead letters read back as a list."""

from __future__ import annotations

from pipeline.deadletter import Refusal, dead_letter, read_letters
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader
from pipeline.ports import InRecord


def broker_with(count: int) -> MemoryBroker:
    broker = MemoryBroker()
    broker.create("dead", 2)
    for n in range(count):
        record = InRecord("e", n, 10 + n, 5, b"s", b"bad", (("epoch", b"x"),))
        out = dead_letter(record, Refusal("bad-envelope", f"number {n}", "s", n))
        broker.append("dead", n % 2, out.key, out.value)
    return broker


def test_what_was_written_is_read() -> None:
    listed = list(read_letters(MemoryReader(broker_with(3)), "dead"))
    assert [(it.record.partition, it.record.offset) for it in listed] == [(0, 0), (0, 1), (1, 0)]
    letter = listed[1].letter
    assert letter is not None
    assert (letter.reason, letter.message, letter.session) == ("bad-envelope", "number 2", "s")
    assert (letter.topic, letter.partition, letter.offset) == ("e", 2, 12)
    assert (letter.fault_seq, letter.value) == (2, b"bad")
    assert [(header.key, header.value) for header in letter.headers] == [("epoch", b"x")]


def test_a_record_that_is_none_of_ours_is_listed_without_a_letter() -> None:
    broker = broker_with(1)
    broker.append("dead", 0, b"k", b"not avro")
    broker.append("dead", 0, b"k", None)
    assert [it.letter is None for it in read_letters(MemoryReader(broker), "dead")] == [
        False,
        True,
        True,
    ]


def test_a_topic_that_is_not_there_has_no_letters() -> None:
    assert list(read_letters(MemoryReader(MemoryBroker()), "dead")) == []
