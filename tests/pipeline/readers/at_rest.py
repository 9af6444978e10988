"""Topics in memory, in the place of those that a command would read from Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from operators.session import Out, Session
from pipeline.commands import brokers
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader, create_topics
from pipeline.topics import Names
from schemas.inbound import read_line
from schemas.outbound import encode, key_of, subject_of


def on_topics(monkeypatch: pytest.MonkeyPatch, session: str, lines: Sequence[bytes]) -> None:
    """A session's lines, and all that comes of them."""
    broker, names = MemoryBroker(), Names()
    create_topics(broker, names, 1)
    state, out = Session(session), Out()
    for line in lines:
        broker.append(names.of("events"), 0, session.encode(), line)
        state.take(read_line(line), out)
    for change in out.changes(state):
        broker.append(names.of(subject_of(change)), 0, key_of(change), encode(change))

    @contextmanager
    def reader(*_: object) -> Iterator[MemoryReader]:
        yield MemoryReader(broker)

    monkeypatch.setattr(brokers, "reader", reader)
