"""Text waits for the rows written before it, over a broker in memory and its transactions."""

from __future__ import annotations

import pytest

from pipeline.gateway.tail import MemoryTail, Taken
from pipeline.gateway.text_after_rows import TextAfterRows
from pipeline.memory import MemoryBroker, Txn
from pipeline.topics import Names

NAMES = Names()
ROWS, TEXT = NAMES.of("transcript"), NAMES.of("partials")
START = {(role, p): 0 for role in ("transcript", "partials", "overview") for p in (0, 1)}


@pytest.fixture
def broker() -> MemoryBroker:
    made = MemoryBroker()
    for role in ("transcript", "surface", "partials", "overview", "events"):
        made.create(NAMES.of(role), 2)
    return made


def begun(broker: MemoryBroker, limit: int = 100) -> TextAfterRows:
    tail = MemoryTail(broker, NAMES, "one", limit)
    tail.start(START)
    return TextAfterRows(tail, START)


def put(
    broker: MemoryBroker, topic: str, value: bytes, txn: Txn | None, partition: int = 0
) -> None:
    broker.append(topic, partition, b"s", value, txn=txn)


def values(taken: Taken, role: str) -> list[bytes | None]:
    return [record.value for record in taken.records.get(role, ())]


def test_text_waits_for_rows_that_are_read_slower(broker: MemoryBroker) -> None:
    for n in range(3):
        put(broker, ROWS, b"row %d" % n, None)
    put(broker, TEXT, b"text", None)
    records = begun(broker, limit=1)
    for n in range(2):
        taken = records.take(0)
        assert values(taken, "transcript") == [b"row %d" % n]
        assert values(taken, "partials") == []
        assert ("partials", 0) not in taken.offsets  # whoever starts again reads it again
    taken = records.take(0)
    assert values(taken, "transcript") == [b"row 2"]
    assert values(taken, "partials") == [b"text"]
    assert taken.offsets["partials", 0] == 1


def test_text_waits_for_rows_whose_transaction_is_open(broker: MemoryBroker) -> None:
    records = begun(broker)
    txn = broker.begin("worker", broker.init_producer("worker"))
    put(broker, ROWS, b"row", txn)
    put(broker, TEXT, b"text", None)
    put(broker, TEXT, b"of another partition", None, partition=1)
    taken = records.take(0)
    assert values(taken, "transcript") == []
    assert values(taken, "partials") == [b"of another partition"]
    put(broker, TEXT, b"more", None)
    assert records.take(0).offsets == {}  # no more of it is read meanwhile
    broker.commit(txn)
    taken = records.take(0)
    assert values(taken, "transcript") == [b"row"]
    assert values(taken, "partials") == [b"text"]
    assert values(records.take(0), "partials") == [b"more"]


def test_text_waits_for_no_row_that_was_written_after_it_was_found(broker: MemoryBroker) -> None:
    records = begun(broker)
    put(broker, TEXT, b"text", None)
    assert values(records.take(0), "partials") == [b"text"]
    put(broker, ROWS, b"later", broker.begin("worker", broker.init_producer("worker")))
    assert records.take(0).records == {"partials": []}


def test_a_transaction_that_was_aborted_is_waited_for_no_longer(broker: MemoryBroker) -> None:
    records = begun(broker)
    txn = broker.begin("worker", broker.init_producer("worker"))
    put(broker, ROWS, b"row", txn)
    put(broker, TEXT, b"text", None)
    assert values(records.take(0), "partials") == []
    broker.abort(txn)
    assert values(records.take(0), "partials") == [b"text"]


def test_markers_alone_move_the_place(broker: MemoryBroker) -> None:
    records = begun(broker)
    txn = broker.begin("worker", broker.init_producer("worker"))
    put(broker, TEXT, b"text", txn)
    broker.abort(txn)
    assert records.take(0).offsets == {("partials", 0): 2}
