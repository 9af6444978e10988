"""The transaction coordinator of a broker in memory: who may write under a transactional id.

Of Kafka's coordinator: producer ids and epochs, fencing, one transaction at a time with the
partitions and groups it touches, time-out, and that its outcome is decided before the markers that
make it visible are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from .memory_log import Refusal

EMPTY, ONGOING, COMMITTED, ABORTED = "empty", "ongoing", "committed", "aborted"
Place = tuple[str, int]


class Registered(Struct):
    """One transactional id. ``unwritten``: the outcome is decided, its markers are on their way."""

    producer_id: int
    epoch: int
    timeout_s: float
    status: str = EMPTY
    since: float = 0.0
    places: set[Place] = set()
    groups: set[str] = set()
    unwritten: bool = False


class Markers(Struct, frozen=True):
    """What an outcome asks to be written, and where. ``asked``: the producer did so itself."""

    name: str
    producer_id: int
    epoch: int
    outcome: str
    places: frozenset[Place]
    groups: frozenset[str]
    asked: bool


class Transactions:
    """``write`` is called with each outcome and must call `written` once its markers stand."""

    def __init__(self, now: Callable[[], float], write: Callable[[Markers], None]) -> None:
        self._now = now
        self.write = write
        self._known: dict[str, Registered] = {}
        self._ids = 0

    def init(
        self, name: str, timeout_s: float, was: tuple[int, int] | None = None
    ) -> tuple[int, int]:
        """Producer id and epoch from now on. What an earlier one has open is aborted first, and
        every later request of it refused. ``was`` asks for a new epoch of that very producer."""
        known = self._known.get(name)
        if known is None:
            self._ids += 1
            known = self._known[name] = Registered(self._ids, -1, timeout_s)
        if was is not None and was != (known.producer_id, known.epoch):
            raise Refusal("INVALID_PRODUCER_EPOCH")
        if known.unwritten:
            raise Refusal("CONCURRENT_TRANSACTIONS")
        known.epoch += 1
        if known.status == ONGOING:
            self._decide(name, known, ABORTED)
            if known.unwritten:
                raise Refusal("CONCURRENT_TRANSACTIONS")
        known.status, known.timeout_s = EMPTY, timeout_s
        return known.producer_id, known.epoch

    def add(
        self, name: str, at: tuple[int, int], places: set[Place], group: str | None = None
    ) -> None:
        """The transaction begins with the first of these."""
        known = self._mine(name, at)
        if known.unwritten:
            raise Refusal("CONCURRENT_TRANSACTIONS")
        if known.status != ONGOING:
            known.status, known.since = ONGOING, self._now()
        known.places |= places
        if group is not None:
            known.groups.add(group)

    def has(self, name: str, at: tuple[int, int], place: Place) -> bool:
        """Whether a record for ``place`` belongs to an ongoing transaction of ``at``."""
        known = self._known.get(name)
        return (
            known is not None
            and (known.producer_id, known.epoch) == at
            and known.status == ONGOING
            and place in known.places
        )

    def require(self, name: str, at: tuple[int, int]) -> None:
        """`Refusal` unless ``at`` is the newest producer of this name."""
        self._mine(name, at)

    def refusal(self, name: str, at: tuple[int, int]) -> str:
        """Why what belongs to no ongoing transaction of ``at`` is refused."""
        known = self._known.get(name)
        current = known is not None and (known.producer_id, known.epoch) == at
        return "INVALID_TXN_STATE" if current else "INVALID_PRODUCER_EPOCH"

    def has_group(self, name: str, at: tuple[int, int], group: str) -> bool:
        known = self._known.get(name)
        return (
            known is not None
            and (known.producer_id, known.epoch) == at
            and known.status == ONGOING
            and group in known.groups
        )

    def end(self, name: str, at: tuple[int, int], outcome: str) -> None:
        """Decide. Deciding the same again is fine, as an answer may have been lost."""
        known = self._mine(name, at)
        if known.status == outcome:
            if known.unwritten:
                raise Refusal("CONCURRENT_TRANSACTIONS")
            return
        if known.status != ONGOING:
            raise Refusal("INVALID_TXN_STATE")
        self._decide(name, known, outcome, asked=True)

    def expire(self) -> None:
        """Abort what is open for longer than its time, and fence whoever had it."""
        for name, known in self._known.items():
            if known.status == ONGOING and self._now() - known.since >= known.timeout_s:
                known.epoch += 1
                self._decide(name, known, ABORTED)

    def written(self, name: str) -> None:
        self._known[name].unwritten = False

    def producer_id(self, name: str) -> int | None:
        known = self._known.get(name)
        return None if known is None else known.producer_id

    def ongoing(self) -> Iterator[str]:
        """The transactional ids with a transaction that is not decided."""
        return (name for name, known in self._known.items() if known.status == ONGOING)

    def _mine(self, name: str, at: tuple[int, int]) -> Registered:
        known = self._known.get(name)
        if known is None or known.producer_id != at[0]:
            raise Refusal("INVALID_PRODUCER_ID_MAPPING")
        if known.epoch != at[1]:
            raise Refusal("PRODUCER_FENCED")
        return known

    def _decide(self, name: str, known: Registered, outcome: str, *, asked: bool = False) -> None:
        markers = Markers(
            name,
            known.producer_id,
            known.epoch,
            outcome,
            frozenset(known.places),
            frozenset(known.groups),
            asked,
        )
        known.status, known.unwritten = outcome, True
        known.places, known.groups = set(), set()
        self.write(markers)
