"""The sessions a worker holds, per partition: decoded while they are busy, else as bytes.

A resident session is always what the state topic says at the committed offsets: a batch folds into
forks (`operators.session.Session.fork`), and only a committed batch is merged. So evicting one
costs nothing, and a failed batch leaves no trace.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from operators.session import Session
from schemas import snapshot

from . import limits
from .errors import StoreDamaged
from .ports import InRecord, Segment, StateStore

SEPARATOR = "\x1f"
PLACE_KEY = b"\x1f"  #: of no session: where a partition's states stand, said by headers alone


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


def weight(encoded: int) -> int:
    """Memory of a decoded session, in bytes, by the size of its snapshot.

    Measured (``python -m tests.bench.run state``): 14 KiB for 1.4 KiB after 10 events, 25 KiB for
    3.2 KiB after 250, 39 KiB for 5.2 KiB after 1 000. That is a base for objects that every session
    has, and some six bytes for each one encoded."""
    return 6_000 + 6 * encoded


class _Resident(Struct):
    """A decoded session, and the sizes of its segments as they were last saved."""

    session: Session
    sizes: dict[str, int]
    weight: int


class States:
    """All partitions of one worker. ``capacity`` bounds the decoded sessions, in bytes of their
    `weight`; of one batch all may stay that long, however large."""

    def __init__(self, store: StateStore, capacity: int = limits.RESIDENT_BYTES) -> None:
        self._store = store
        self._capacity = capacity
        self._resident: OrderedDict[tuple[int, str], _Resident] = OrderedDict()
        self._weight = 0

    @property
    def residents(self) -> int:
        """Sessions that are decoded."""
        return len(self._resident)

    @property
    def weight(self) -> int:
        """Of all residents, in bytes."""
        return self._weight

    def of(self, partition: int) -> PartitionStates:
        return PartitionStates(self, partition)

    def get(self, partition: int, session: str) -> Session | None:
        """The session as committed, None if it is new. Fork it before folding. `StoreDamaged` if
        what the store holds cannot be read."""
        at = (partition, session)
        resident = self._resident.get(at)
        if resident is not None:
            self._resident.move_to_end(at)
            return resident.session
        segments = self._store.segments(partition, session)
        if segments is None:
            return None
        try:
            state = snapshot.load(session, segments)
        except snapshot.SnapshotError as error:
            raise StoreDamaged(partition, str(error)) from error
        # Resident from now on: the batch that asks will merge it, and needs the sizes.
        self._hold(at, state, _sizes(segments))
        self._shrink()
        return state

    def merge(
        self, partition: int, staged: Mapping[str, Session], saved: Iterable[Segment], position: int
    ) -> None:
        """A batch was committed: its states are the states now. ``position`` as in
        `StateStore.write`."""
        changed = list(saved)
        self._store.write(partition, changed, position)
        sizes: dict[str, dict[str, int | None]] = {}
        for session, segment, value in changed:
            sizes.setdefault(session, {})[segment] = None if value is None else len(value)
        for session, state in staged.items():
            at = (partition, session)
            known = self._known(at, state)
            for name, size in sizes.get(session, {}).items():
                if size is None:
                    known.pop(name, None)
                else:
                    known[name] = size
            self._hold(at, state, known)
        self._shrink()

    def _known(self, at: tuple[int, str], state: Session) -> dict[str, int]:
        """The sizes of a session's segments; of one that is new, or was evicted since the batch
        read it, those that the store has."""
        resident = self._resident.get(at)
        if resident is not None:
            return dict(resident.sizes)
        return _sizes(self._store.segments(*at) or {}) if state.segments.apart else {}

    def open(self, partition: int) -> int | None:
        """Where to read on from on the state topic; None: from its first record."""
        return self._store.open(partition)

    def apply(self, partition: int, records: Iterable[InRecord], position: int) -> None:
        """Records of the state topic up to ``position``, in their order."""
        segments = [_segment(record) for record in records if record.key != PLACE_KEY]
        if self._resident:
            for session, _, _ in segments:
                self._forget((partition, session))
        self._store.write(partition, segments, position, current=False)

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
        self._weight = 0
        self._store.close()

    # --- residents --------------------------------------------------------------------------------

    def _hold(self, at: tuple[int, str], state: Session, sizes: dict[str, int]) -> None:
        """As the most recently used one."""
        self._forget(at)
        resident = _Resident(state, sizes, weight(sum(sizes.values())))
        self._resident[at] = resident
        self._weight += resident.weight

    def _forget(self, at: tuple[int, str]) -> None:
        resident = self._resident.pop(at, None)
        if resident is not None:
            self._weight -= resident.weight

    def _shrink(self) -> None:
        """The least recently used go first; the last one stays whatever it weighs: it is in use."""
        while self._weight > self._capacity and len(self._resident) > 1:
            self._forget(next(iter(self._resident)))

    def _evict(self, partition: int) -> None:
        for at in [at for at in self._resident if at[0] == partition]:
            self._forget(at)


def _sizes(segments: Mapping[str, bytes]) -> dict[str, int]:
    return {name: len(value) for name, value in segments.items()}


def _segment(record: InRecord) -> Segment:
    assert record.key is not None, "state records carry the session as their key"
    session, segment = split_state_key(record.key)
    return session, segment, record.value
