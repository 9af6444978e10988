"""Topics in memory, folded by a worker: what the gateway's benches read."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

from pipeline import limits
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import create_topics
from pipeline.topics import Names
from pipeline.wiring import WorkerSettings, build

NAMES = Names()


def partition_of(session: str) -> int:
    return zlib.crc32(session.encode()) % limits.PARTITIONS


def folded(logs: Mapping[str, Iterable[bytes]]) -> MemoryBroker:
    """All topics of sessions, by their id."""
    broker = MemoryBroker()
    create_topics(broker, NAMES)
    events = NAMES.of("events")
    for session, lines in logs.items():
        for line in lines:
            broker.append(events, partition_of(session), session.encode(), line)
    build(WorkerSettings(broker=broker, instance="bench", stop_at_end=True)).run()
    return broker
