"""Cold sessions as bytes in this process (`ports.StateStore`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.ports import Segment
from schemas.snapshot import HEAD


class MemoryStore:
    """Gone with the process: a restart reads the whole state topic."""

    def __init__(self) -> None:
        self._partitions: dict[int, dict[str, dict[str, bytes]]] = {}
        self._positions: dict[int, int] = {}

    def open(self, partition: int) -> int | None:
        return self._positions.get(partition)

    def write(
        self,
        partition: int,
        items: Iterable[Segment],
        position: int,
        *,
        current: bool = True,  # noqa: ARG002 - what is not kept cannot grow old
    ) -> None:
        sessions = self._partitions.setdefault(partition, {})
        for session, segment, value in items:
            if value is not None:
                sessions.setdefault(session, {})[segment] = value
            elif session in sessions:
                sessions[session].pop(segment, None)
                if not sessions[session]:
                    del sessions[session]
        self._positions[partition] = position

    def segments(self, partition: int, session: str) -> Mapping[str, bytes] | None:
        found = self._partitions.get(partition, {}).get(session)
        return found if found and HEAD in found else None

    def sessions(self, partition: int) -> int:
        return len(self._partitions.get(partition, {}))

    def release(self, partition: int) -> None:
        """Memory is dear: what is another worker's now is not kept."""
        self.wipe(partition)

    def wipe(self, partition: int) -> None:
        self._partitions.pop(partition, None)
        self._positions.pop(partition, None)

    def close(self) -> None:
        self._partitions.clear()
        self._positions.clear()
