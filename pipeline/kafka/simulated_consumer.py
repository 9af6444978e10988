"""A consumer of kafka-python's shape over brokers in memory and virtual time.

As the client does it: the group's business happens inside `poll`, heartbeats go on beside it, and
a member that is out of its group says so (generation -1, no member id) while it still shows its
partitions. Positions move over transaction markers and stop at the first open transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka import TopicPartition
from kafka import errors as raised
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from pipeline.memory_log import Refusal
from pipeline.ports import InRecord

from .simulated_brokers import Site
from .simulated_membership import Membership

RETRY_S = 0.1
FETCH_S = 0.001
FOR_EVER_MS = 60_000


class SimulatedConsumer:
    """``settings`` by kafka-python's names."""

    def __init__(self, site: Site, settings: Mapping[str, Any]) -> None:
        self._site = site
        self._brokers = site.brokers
        self._time = site.time
        self._settings = settings
        self._committed_only = settings.get("isolation_level") == "read_committed"
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._manual: set[TopicPartition] = set()
        self._membership: Membership | None = None
        self._closed = False
        site.brokers.await_any(30.0)

    # --- what is read -----------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], listener: Any) -> None:
        (topic,) = topics
        self._membership = Membership(self._site, self._settings, topic, listener)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._manual = set(partitions)
        self._positions = {at: n for at, n in self._positions.items() if at in self._manual}
        self._paused &= self._manual

    def assignment(self) -> set[TopicPartition]:
        return set(self._membership.owned) if self._membership else set(self._manual)

    def seek(self, at: TopicPartition, offset: int) -> None:
        self._require(at)
        self._positions[at] = offset

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        for at in partitions:
            self.seek(at, 0)

    def pause(self, *partitions: TopicPartition) -> None:
        for at in partitions:
            self._require(at)
            self._paused.add(at)

    def resume(self, *partitions: TopicPartition) -> None:
        for at in partitions:
            self._require(at)
            self._paused.discard(at)

    def position(self, at: TopicPartition, **_: Any) -> int | None:
        self._require(at)
        return self._positions.get(at)

    def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[InRecord]]:
        self._site.process.hook("poll:before")
        until = self._time.monotonic() + timeout_ms / 1000
        room = max_records or self._settings["max_poll_records"]
        found: dict[TopicPartition, list[InRecord]] = {}
        while True:
            if self._membership is not None:
                self._membership.turn()
                self._forget_lost()
            found = self._fetch(room)
            left = until - self._time.monotonic()
            if found or left <= 0:
                break
            self._await_news(left)
        self._time.sleep(FETCH_S)
        self._site.process.hook("poll:after")
        return found

    def _await_news(self, seconds: float) -> None:
        memory, membership = self._brokers.memory, self._membership
        before = memory.version

        def news() -> bool:
            return memory.version != before or (membership is not None and membership.has_news)

        self._time.wait(news, seconds)

    def _forget_lost(self) -> None:
        assert self._membership is not None
        for at in [at for at in self._positions if at not in self._membership.owned]:
            del self._positions[at]
            self._paused.discard(at)

    def _fetch(self, room: int) -> dict[TopicPartition, list[InRecord]]:
        found: dict[TopicPartition, list[InRecord]] = {}
        for at in sorted(self._positions):
            if at in self._paused or room <= 0:
                continue
            if not self._brokers.network.reachable(self._brokers.leader(at)):
                continue
            log = self._brokers.memory.log(*at)
            if self._positions[at] > log.end:
                raise raised.OffsetOutOfRangeError({at: self._positions[at]})
            fetch = log.fetch if self._committed_only else log.fetch_all
            records, self._positions[at] = fetch(self._positions[at], room)
            if records:
                found[at] = records
                room -= len(records)
        return found

    # --- asked ------------------------------------------------------------------------------------

    def committed(
        self, at: TopicPartition, metadata: bool = False, timeout_ms: int | None = None
    ) -> Any:
        """Waits while an open transaction carries offsets of the group."""
        group = self._settings["group_id"]

        def serve() -> Any:
            offsets = self._brokers.memory.offsets
            if not offsets.decided(group):
                raise Refusal("UNSTABLE_OFFSET_COMMIT")
            return (offsets.committed(group).get((at.topic, at.partition)),)

        request = "OffsetFetch", self._brokers.coordinator(group)
        (offset,) = self._ask(request, serve, timeout_ms)
        if offset is None:
            return None
        return OffsetAndMetadata(offset, "", -1) if metadata else offset

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        return {at: self._offset(at, "begin", timeout_ms) for at in partitions}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The last stable offset for who reads committed records."""
        which = "stable" if self._committed_only else "end"
        return {at: self._offset(at, which, timeout_ms) for at in partitions}

    def _offset(self, at: TopicPartition, which: str, timeout_ms: int | None) -> int:
        def serve() -> int:
            log = self._brokers.memory.log(*at)
            return {"begin": 0, "stable": log.stable, "end": log.end}[which]

        found: int = self._ask(("ListOffsets", self._brokers.leader(at)), serve, timeout_ms)
        return found

    def _ask(self, request: tuple[str, int], serve: Any, timeout_ms: int | None) -> Any:
        self._site.process.hook(f"{request[0]}:before")
        seconds = (FOR_EVER_MS if timeout_ms is None else timeout_ms) / 1000
        answer = self._site.ask(request, serve, seconds, RETRY_S)
        self._site.process.hook(f"{request[0]}:after")
        return answer

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        count = self._brokers.memory.topics().get(topic)
        return set(range(count)) if count else None

    def group_metadata(self) -> ConsumerGroupMetadata:
        assert self._membership is not None
        return self._membership.metadata()

    def close(self, timeout_ms: int | None = None, **_: Any) -> None:
        if not self._closed:
            self._closed = True
            if self._membership is not None:
                self._membership.close((timeout_ms or FOR_EVER_MS) / 1000)

    def _require(self, at: TopicPartition) -> None:
        if at not in self.assignment():
            raise raised.IllegalStateError(f"No current assignment for partition {at}")
