"""The same through the pipeline's one entry, record by record as bytes."""

from __future__ import annotations

from collections.abc import Iterable

from operators.session import Session
from pipeline.batch import BatchResult, fold_batch
from pipeline.ports import InRecord
from schemas import codec
from tests.laws.folding import SESSION


def records(
    lines: Iterable[bytes], session: str = SESSION, partition: int = 0, offset: int = 0
) -> list[InRecord]:
    """The lines as input records, in offset order."""
    key = session.encode()
    return [
        InRecord("sessions.events", partition, number, 0, key, line)
        for number, line in enumerate(lines, offset)
    ]


class Topics:
    """What the output topics say in the end: the surface in order, the last of every key."""

    def __init__(self) -> None:
        self.surface: dict[bytes, list[bytes]] = {}
        self.last: dict[tuple[str, bytes], bytes | None] = {}
        self.dead: list[bytes] = []

    def take(self, result: BatchResult) -> Topics:
        for record in result.outputs:
            assert record.key is not None or record.role == "deadletter"
            if record.role == "surface":
                self.surface.setdefault(record.key or b"", []).append(record.value or b"")
            elif record.role in ("transcript", "overview"):
                self.last[record.role, record.key or b""] = record.value
            elif record.role == "deadletter":
                self.dead.append(record.value or b"")
        return self


def run(batches: Iterable[list[InRecord]]) -> tuple[dict[str, Session], Topics]:
    """Batches through the one entry that every runner calls."""
    states: dict[str, Session] = {}
    topics = Topics()
    for batch in batches:
        result = fold_batch(batch, states)
        topics.take(result)
        states.update(result.states)
    return states, topics


def settled(last: dict[tuple[str, bytes], bytes | None]) -> dict[tuple[str, bytes], bytes]:
    """The last records by key; a key whose last record is ``deleted`` counts as absent
    (streams.md §5)."""
    return {key: value for key, value in last.items() if value is not None and not deleted(value)}


def deleted(value: bytes) -> bool:
    record = codec.read(value)
    assert isinstance(record, codec.Record)
    return bool(record.fields.get("deleted"))
