"""Retry rows: the attempts of one retry id (projection.md §5.6)."""

from __future__ import annotations

import msgspec
from immutables import Map

from .changes import Attempt, RetryData
from .events import Event, Retry, RetryStarted
from .out import Out, RowPlace
from .table import Table


class Chain(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All attempts seen of one retry id; ``status`` is that of the last one."""

    key: int
    turn: int | None
    step: int | None
    time: int | None
    retry_id: str
    provider: str | None
    mode: str | None
    status: str
    attempts: tuple[Attempt, ...]


class Retries:
    """Retry rows of turns that have not ended."""

    __slots__ = ("by_id", "table")

    def __init__(self) -> None:
        self.table: Table[Chain] = Table()
        self.by_id: Map[str, int] = Map()

    def fork(self) -> Retries:
        twin = Retries.__new__(Retries)
        twin.table, twin.by_id = self.table.fork(), self.by_id
        return twin

    def retry(
        self,
        event: Event,
        body: Retry,
        place: tuple[int | None, int | None],
        closed: bool,
        out: Out,
    ) -> Chain | None:
        """``llm/retry`` with an id: a further attempt, or a new row (returned). One logged after
        its step or turn closed is cancelled at once."""
        assert body.retry_id is not None
        seq, time = event.seq, event.time
        attempt = Attempt(seq, time, body.retry, body.max_retries, body.delay_ms, body.failure)
        status = "cancelled" if closed else "scheduled"
        key = self.by_id.get(body.retry_id)
        if key is not None:
            chain = self.table[key]
            self._put(
                msgspec.structs.replace(chain, status=status, attempts=(*chain.attempts, attempt)),
                seq,
                out,
            )
            return None
        chain = Chain(
            seq, *place, time, body.retry_id, body.provider, body.mode, status, (attempt,)
        )
        self.by_id = self.by_id.set(body.retry_id, seq)
        self._put(chain, seq, out)
        return chain

    def started(self, seq: int, body: RetryStarted, out: Out) -> None:
        """``llm/retry-started``: needs the number of the last attempt."""
        key = self.by_id.get(body.retry_id) if body.retry_id else None
        if key is None:
            return
        chain = self.table[key]
        if body.retry is None or chain.attempts[-1].retry != body.retry:
            return
        if chain.status != "started":
            self._put(msgspec.structs.replace(chain, status="started"), seq, out)

    def close(self, keys: list[int], seq: int, out: Out) -> None:
        """The step or turn closes: what is still scheduled is cancelled."""
        for key in keys:
            chain = self.table[key]
            if chain.status == "scheduled":
                self._put(msgspec.structs.replace(chain, status="cancelled"), seq, out)

    def forget(self, keys: list[int]) -> None:
        for key in keys:
            chain = self.table[key]
            if self.by_id.get(chain.retry_id) == key:
                self.by_id = self.by_id.delete(chain.retry_id)
            self.table.drop(key)

    def _put(self, chain: Chain, rev: int, out: Out) -> None:
        self.table.put(chain.key, chain)
        out.row(
            RowPlace(
                "retry", chain.key, chain.key, 0, rev, True, chain.turn, chain.step, chain.time
            ),
            RetryData(chain.retry_id, chain.provider, chain.mode, chain.status, chain.attempts),
        )
