"""The ports of ``ports.py`` over a `MemoryBroker`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from . import limits
from .errors import Fatal, Retriable
from .memory import MemoryBroker, Txn
from .ports import InRecord, Member, OutRecord, Polled, require_joined, too_large
from .topics import Found, Names, specs

FETCH_RECORDS = 1_000
TICK_S = 0.01  #: between two looks at a partition that an open transaction holds


def create_topics(broker: MemoryBroker, names: Names, partitions: int = limits.PARTITIONS) -> None:
    """The topics of streams.md §1; their cleanup means nothing in memory."""
    for spec in specs(names, partitions):
        broker.create(spec.name, spec.partitions)


def found_topics(broker: MemoryBroker) -> dict[str, Found]:
    return {name: Found(count, {}) for name, count in broker.topics().items()}


class MemorySource:
    """A group member over one topic (`ports.Source`)."""

    def __init__(
        self, broker: MemoryBroker, group: str, topic: str, batch: int = limits.BATCH_RECORDS
    ) -> None:
        self._broker = broker
        self._group = group
        self._topic = topic
        self._batch = batch
        self._id: str | None = None
        self._mine: frozenset[int] = frozenset()
        self._positions: dict[int, int] = {}

    def poll(self, timeout: float) -> Polled:
        deadline = time.monotonic() + timeout
        with self._broker.changed:
            if self._id is None:
                self._id = self._broker.join(self._group, self._topic)
            while True:
                polled = self._once()
                left = deadline - time.monotonic()
                if polled.records or polled.revoked or polled.assigned or left <= 0:
                    return polled
                self._broker.changed.wait(left)

    def _once(self) -> Polled:
        assert self._id is not None
        member, mine, gone = self._broker.look(self._group, self._id)
        if not member.joined:  # taken for dead: all is lost, and we come back as somebody new
            lost, self._mine = self._mine, frozenset()
            self._positions.clear()
            self._id = self._broker.join(self._group, self._topic)
            return Polled({}, member, revoked=tuple(sorted(lost)))
        revoked = gone & self._mine
        assigned = mine - (self._mine - revoked)
        self._mine = mine
        for partition in revoked:
            self._positions.pop(partition, None)
        return Polled(
            self._fetch(), member, revoked=tuple(sorted(revoked)), assigned=tuple(sorted(assigned))
        )

    def _fetch(self) -> dict[int, list[InRecord]]:
        records: dict[int, list[InRecord]] = {}
        room = self._batch
        for partition, start in self._positions.items():
            found, position = self._broker.fetch(self._topic, partition, start, room)
            self._positions[partition] = position
            if found:
                records[partition] = found
                room -= len(found)
            if room == 0:
                break
        return records

    def committed(
        self, partitions: Iterable[int], wait_s: float = limits.COMMITTED_TIMEOUT_S
    ) -> dict[int, int | None]:
        del wait_s  # what is undecided here stays so until somebody else goes on
        wanted = tuple(partitions)
        offsets = self._broker.committed(self._group, wanted)
        return {partition: offsets.get(partition) for partition in wanted}

    def start(self, partition: int, offset: int | None) -> None:
        if partition in self._mine:
            self._positions[partition] = offset or 0

    def pause(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)

    def lag(self) -> dict[int, int] | None:
        return {
            partition: max(0, self._broker.stable(self._topic, partition) - position)
            for partition, position in self._positions.items()
        }

    def current(self, member: Member) -> bool:
        return member.member_id == self._id

    def ownerless(self) -> frozenset[int]:
        """None: partitions are dealt out all at once."""
        return frozenset()

    def abandon(self, *, leave: bool = False) -> None:
        """Leaves in any case; what was held is reported by the next poll."""
        del leave
        if self._id is not None:
            self._broker.leave(self._group, self._id)
            self._positions.clear()

    def close(self, *, leave: bool = True) -> None:
        if self._id is not None:
            if leave:
                self._broker.leave(self._group, self._id)
            self._id = None
            self._mine = frozenset()
            self._positions.clear()


class MemorySink:
    """The transactional producer of one worker (`ports.Sink`)."""

    def __init__(
        self, broker: MemoryBroker, names: Names, transactional_id: str, group: str | None = None
    ) -> None:
        self._broker = broker
        self._names = names
        self._id = transactional_id
        self._group = group or names.application
        self._epoch: int | None = None

    def open(self) -> None:
        self._epoch = self._broker.init_producer(self._id)

    def begin(self) -> MemoryTransaction:
        if self._epoch is None:
            raise Retriable("the producer is not open")
        txn = self._broker.begin(self._id, self._epoch)
        return MemoryTransaction(self._broker, self._names, txn, self._group)

    def abandon(self) -> None:
        self._epoch = None

    def close(self) -> None:
        self.abandon()


class MemoryTransaction:
    def __init__(self, broker: MemoryBroker, names: Names, txn: Txn, group: str) -> None:
        self._broker = broker
        self._names = names
        self._txn = txn
        self._group = group
        self._counts = broker.topics()
        self._positions: dict[int, int] = {}

    def send(self, record: OutRecord) -> None:
        size = len(record.key or b"") + len(record.value or b"")
        if size > limits.MAX_OUTPUT_RECORD_BYTES:
            raise too_large(record, size)
        topic = self._names.of(record.role)
        count = self._counts.get(topic)
        if count is None:
            raise Fatal(f"topic {topic} is missing", "run `foldstream topics create`")
        offset = self._broker.append(
            topic,
            record.partition % count if record.role == "deadletter" else record.partition,
            record.key,
            record.value,
            headers=record.headers,
            txn=self._txn,
        )
        if record.role == "state":
            self._positions[record.partition] = offset + 1

    def send_offsets(self, offsets: Mapping[int, int], member: Member) -> None:
        require_joined(member)
        self._broker.add_offsets(self._txn, self._group, offsets, member)

    def flush(self) -> dict[int, int]:
        return self._positions

    def commit(self) -> None:
        self._broker.commit(self._txn)


class MemoryReader:
    """Topics at rest (`ports.Reader`). ``wait`` is called while a transaction holds the end."""

    def __init__(
        self,
        broker: MemoryBroker,
        wait: Callable[[float], None] = time.sleep,
        patience: float = 1.0,
    ) -> None:
        self._broker = broker
        self._wait = wait
        self._patience = patience

    def partitions(self, topic: str) -> int:
        return self._broker.topics().get(topic, 0)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return 0, self._broker.end(topic, partition)

    def read(
        self, topic: str, partition: int, start: int = 0, end: int | None = None
    ) -> Iterator[InRecord]:
        stop = self._broker.end(topic, partition) if end is None else end
        cursor = self.cursor(topic, partition, start, stop)
        while not cursor.done:
            yield from cursor.take(self._patience)

    def cursor(self, topic: str, partition: int, start: int, end: int) -> MemoryCursor:
        def fetch(position: int) -> tuple[list[InRecord], int]:
            return self._broker.fetch(topic, partition, position, FETCH_RECORDS)

        return MemoryCursor(f"{topic}[{partition}]", fetch, (start, end), self._held)

    def _held(self, waited: float) -> bool:
        """Wait a moment for an open transaction; False once that took too long."""
        if waited >= self._patience:
            return False
        self._wait(TICK_S)
        return True

    def committed(self, group: str, topic: str) -> dict[int, int]:
        if not self._broker.subscribed(group, topic):
            return {}
        waited = 0.0
        while True:
            try:
                return self._broker.committed(group)
            except Retriable:
                if not self._held(waited):
                    raise
                waited += TICK_S

    def close(self) -> None:
        """Nothing is open."""


class MemoryCursor:
    """A bounded read in slices (`ports.Cursor`)."""

    def __init__(
        self,
        name: str,
        fetch: Callable[[int], tuple[list[InRecord], int]],
        bounds: tuple[int, int],
        held: Callable[[float], bool],
    ) -> None:
        self._name = name
        self._fetch = fetch
        self.position, self._end = bounds
        self._held = held
        self._waited = 0.0

    @property
    def done(self) -> bool:
        return self.position >= self._end

    def take(self, timeout_s: float) -> list[InRecord]:
        began = self._waited
        while not self.done:
            records, after = self._fetch(self.position)
            if after > self.position:
                self.position, self._waited = after, 0.0
                return [record for record in records if record.offset < self._end]
            if not self._held(self._waited):
                raise Retriable(
                    f"{self._name} cannot be read beyond offset {self.position} of {self._end}",
                    "an open transaction holds it",
                )
            self._waited += TICK_S
            if self._waited - began >= timeout_s:
                break
        return []

    def close(self) -> None:
        """Nothing is open."""
