"""The sessions a worker holds, per partition: decoded while they are busy, else as bytes.

A resident session is always what the state topic says at the committed offsets: a batch folds into
forks (`operators.session.Session.fork`), and only a committed batch is merged. So evicting one
costs nothing, and a failed batch leaves no trace.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from operators.session import Session
from schemas import snapshot

from . import limits
from .errors import StoreDamaged
from .ports import InRecord, Segment, StateStore

SEPARATOR = "\x1f"


def state_key(session: str, segment: str) -> bytes:
    """Key on the state topic: the session id, and 0x1F and the segment unless it is the head.

    A session id that holds a 0x1F itself keeps the separator for its head too, so that the last
    one always ends the id."""
    if segment or SEPARATOR in session:
        return f"{session}{SEPARATOR}{segment}".encode()
    return session.encode()


def split_state_key(key: bytes) -> tuple[str, str]:
    """Session id and segment of `state_key`."""
    session, found, segment = key.decode().rpartition(SEPARATOR)
    return (session, segment) if found else (segment, "")


class PartitionStates:
    """The sessions of one partition, read like a mapping: what `batch.fold_batch` folds from."""

    def __init__(self, owner: States, partition: int) -> None:
        self._owner = owner
        self._partition = partition

    def get(self, session: str) -> Session | None:
        return self._owner.get(self._partition, session)


class States:
    """All partitions of one worker. ``capacity`` bounds the decoded sessions."""

    def __init__(self, store: StateStore, capacity: int = limits.RESIDENT_SESSIONS) -> None:
        self._store = store
        self._capacity = capacity
        self._resident: OrderedDict[tuple[int, str], Session] = OrderedDict()

    def of(self, partition: int) -> PartitionStates:
        return PartitionStates(self, partition)

    def get(self, partition: int, session: str) -> Session | None:
        """The session as committed, None if it is new. Fork it before folding."""
        at = (partition, session)
        resident = self._resident.get(at)
        if resident is not None:
            self._resident.move_to_end(at)
            return resident
        segments = self._store.segments(partition, session)
        if segments is None:
            return None
        try:
            return snapshot.load(session, segments)
        except snapshot.SnapshotError as error:
            raise StoreDamaged(partition, str(error)) from error

    def merge(
        self, partition: int, staged: Mapping[str, Session], saved: Iterable[Segment], position: int
    ) -> None:
        """A batch was committed: its states are the states now. ``position`` as in
        `StateStore.write`."""
        self._store.write(partition, saved, position)
        for session, state in staged.items():
            at = (partition, session)
            self._resident[at] = state
            self._resident.move_to_end(at)
        while len(self._resident) > self._capacity:
            self._resident.popitem(last=False)

    def open(self, partition: int) -> int | None:
        """Where to read on from on the state topic; None: from its first record."""
        return self._store.open(partition)

    def apply(self, partition: int, records: Iterable[InRecord], position: int) -> None:
        """Records of the state topic up to ``position``, in their order."""
        segments = [_segment(record) for record in records]
        for session, _, _ in segments:
            self._resident.pop((partition, session), None)
        self._store.write(partition, segments, position)

    def sessions(self, partition: int) -> int:
        return self._store.sessions(partition)

    def drop(self, partition: int) -> None:
        """The partition is somebody else's."""
        self._store.release(partition)
        self._evict(partition)

    def wipe(self, partition: int) -> None:
        """What is held of the partition is not to be believed."""
        self._store.wipe(partition)
        self._evict(partition)

    def close(self) -> None:
        self._resident.clear()
        self._store.close()

    def _evict(self, partition: int) -> None:
        for at in [at for at in self._resident if at[0] == partition]:
            del self._resident[at]


def _segment(record: InRecord) -> Segment:
    assert record.key is not None, "state records carry the session as their key"
    session, segment = split_state_key(record.key)
    return session, segment, record.value
