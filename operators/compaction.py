"""Compactions: from start to end, and the checkpoint that lands one (projection.md §5.3).

A checkpoint is an accepted *replacement* that is a user message with the compaction source; nothing
else marks anything. Everything is tied by compaction id and by cited seqs, never by proximity.
"""

from __future__ import annotations

import msgspec
from immutables import Map

from .changes import CompactionData
from .events import (
    BadSources,
    Checkpoint,
    CompactionEnd,
    CompactionStart,
    CompactionSummary,
    Sources,
)
from .out import RowPlace
from .summaries import Summaries, Summary
from .table import Table
from .totals import elapsed


class Compaction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One compaction row; ``key`` is the seq in its key. ``named``: one of its events names a
    command. ``cites``: its checkpoint cites the summary it carries. ``joined``: key of the command
    row that carries it now; ``shown``: where its own row was published last."""

    key: int
    id: str | None
    status: str
    turn: int | None = None
    step: int | None = None
    time: int | None = None
    named: bool = False
    start_seq: int | None = None
    start_time: int | None = None
    checkpoint_seq: int | None = None
    command_id: str | None = None
    summary_seq: int | None = None
    cites: bool = False
    end_time: int | None = None
    error: str | None = None
    joined: int | None = None
    shown: RowPlace | None = None
    failed_generation: int = -1

    @property
    def landed(self) -> bool:
        return self.checkpoint_seq is not None

    @property
    def anchor(self) -> int:
        return self.key if self.checkpoint_seq is None else self.checkpoint_seq

    def data(self, summary: Summary | None) -> CompactionData:
        """What the row shows, with the summary it carries."""
        manual = self.named or self.joined is not None
        return CompactionData(
            self.id,
            "manual" if manual else "auto" if self.id is not None else None,
            self.status,
            self.checkpoint_seq,
            summary.text if summary else None,
            self.summary_seq,
            summary.item_count if summary else None,
            summary.token_count if summary else None,
            self.start_seq,
            self.start_time,
            self.end_time,
            elapsed(self.start_time, self.end_time),
            self.error,
        )


class Compactions:
    """All compactions and summaries of the session: few, and kept."""

    __slots__ = (
        "by_command",
        "by_id",
        "by_summary",
        "running",
        "summaries",
        "table",
    )

    def __init__(self) -> None:
        self.table: Table[Compaction] = Table()
        self.summaries = Summaries()
        self.by_id: Map[str, tuple[int, ...]] = Map()
        self.by_command: Map[str, tuple[int, ...]] = Map()  # landed, by the checkpoint's command
        self.by_summary: Map[int, tuple[int, ...]] = Map()  # landed, by the summary carried
        self.running: Map[int, None] = Map()

    def fork(self) -> Compactions:
        twin = Compactions.__new__(Compactions)
        twin.table, twin.summaries = self.table.fork(), self.summaries.fork()
        twin.by_id, twin.by_command, twin.by_summary = self.by_id, self.by_command, self.by_summary
        twin.running = self.running
        return twin

    def index(self) -> None:
        """Build what can be looked up from the records (after a restore)."""
        for key in sorted(self.table):
            row = self.table[key]
            self._index_id(row)
            if row.status == "running":
                self.running = self.running.set(key, None)
            if row.command_id is not None:
                held = self.by_command.get(row.command_id, ())
                self.by_command = self.by_command.set(row.command_id, (*held, key))
            if row.summary_seq is not None:
                carriers = self.by_summary.get(row.summary_seq, ())
                self.by_summary = self.by_summary.set(row.summary_seq, (*carriers, key))
        self.summaries.index()

    def put(self, row: Compaction) -> None:
        self.table.put(row.key, row)
        if row.status == "running":
            self.running = self.running.set(row.key, None)
        elif row.key in self.running:
            self.running = self.running.delete(row.key)

    def data_of(self, row: Compaction) -> CompactionData:
        seq = row.summary_seq
        return row.data(None if seq is None else self.summaries.table[seq])

    def of_id(self, compaction_id: str | None) -> list[Compaction]:
        keys = self.by_id.get(compaction_id, ()) if compaction_id is not None else ()
        return [self.table[key] for key in keys]

    def start(
        self,
        seq: int,
        time: int | None,
        place: tuple[int | None, int | None],
        body: CompactionStart,
    ) -> Compaction | None:
        """``compaction/start``: a running row; without an id nothing could ever end it: None."""
        if body.compaction_id is None:
            return None
        row = Compaction(
            seq,
            body.compaction_id,
            "running",
            *place,
            time,
            named=body.command_id is not None,
            start_seq=seq,
            start_time=time,
        )
        self._index_id(row)
        self.put(row)
        return row

    def summarize(self, seq: int, body: CompactionSummary) -> list[Compaction]:
        """``compaction/summary``: kept for the checkpoint that cites it. Returns the running rows
        that are manual because of it."""
        named = body.command_id is not None
        summary = Summary(
            seq, body.compaction_id, named, body.text, body.item_count, body.token_count
        )
        self.summaries.put(summary)
        return self._name(body.compaction_id) if named else []

    def _name(self, compaction_id: str | None) -> list[Compaction]:
        """The rows of an id that did not land yet become manual; those that were not."""
        changed = [
            msgspec.structs.replace(row, named=True)
            for row in self.of_id(compaction_id)
            if not row.named and not row.landed
        ]
        for row in changed:
            self.put(row)
        return changed

    def end(self, time: int | None, body: CompactionEnd) -> list[Compaction]:
        """``compaction/end``: duration and failure; the rows it changes. A compaction that ends
        without its checkpoint has failed, whatever the event says."""
        changed = []
        for row in self.of_id(body.compaction_id):
            ended = msgspec.structs.replace(
                row,
                named=row.named or body.command_id is not None,
                status="landed" if row.landed else "failed",
                end_time=time,
                error=body.error,
            )
            if ended != row:
                self.put(ended)
                changed.append(ended)
        return changed

    def stale(self) -> list[Compaction]:
        """``session/end-seed``: what still runs was started by a process that is gone."""
        rows = [
            msgspec.structs.replace(self.table[key], status="stale") for key in sorted(self.running)
        ]
        for row in rows:
            self.put(row)
        return rows

    def land(
        self,
        seq: int,
        time: int | None,
        place: tuple[int | None, int | None],
        checkpoint: Checkpoint,
        sources: Sources | BadSources | None,
    ) -> tuple[Compaction, list[Compaction]]:
        """A checkpoint lands: the row it makes or completes, and rows that lose a summary they had
        by id alone because this checkpoint cites it."""
        same = self.of_id(checkpoint.compaction_id)
        row = next((r for r in reversed(same) if not r.landed), None)
        if row is None:
            row = Compaction(seq, checkpoint.compaction_id, "landed")
            if same:
                row = msgspec.structs.replace(
                    row,
                    named=same[0].named,
                    start_seq=same[0].start_seq,
                    start_time=same[0].start_time,
                )
            self._index_id(row)
        cited = self.summaries.cited(sources)
        summary = cited or self._only_summary(checkpoint.compaction_id)
        named = row.named or checkpoint.command_id is not None
        row = msgspec.structs.replace(
            row,
            status="landed",
            turn=place[0],
            step=place[1],
            time=time,
            named=named or (summary is not None and summary.named),
            checkpoint_seq=seq,
            command_id=checkpoint.command_id,
            cites=cited is not None,
        )
        robbed = self._rob(cited) if cited else []
        row = self._carry(row, summary)
        if checkpoint.command_id is not None:
            held = self.by_command.get(checkpoint.command_id, ())
            self.by_command = self.by_command.set(checkpoint.command_id, (*held, row.key))
        self.put(row)
        return row, robbed

    def _index_id(self, row: Compaction) -> None:
        if row.id is not None:
            self.by_id = self.by_id.set(row.id, (*self.by_id.get(row.id, ()), row.key))

    def _only_summary(self, compaction_id: str | None) -> Summary | None:
        """The only earlier summary of that id, if no checkpoint cites it."""
        only = self.summaries.only_of(compaction_id)
        if only is None:
            return None
        carriers = (self.table[key] for key in self.by_summary.get(only.key, ()))
        return None if any(row.cites for row in carriers) else only

    def _rob(self, summary: Summary) -> list[Compaction]:
        rows = [self.table[key] for key in self.by_summary.get(summary.key, ())]
        robbed = [self._carry(row, None) for row in rows if not row.cites]
        for row in robbed:
            self.put(row)
        return robbed

    def _carry(self, row: Compaction, summary: Summary | None) -> Compaction:
        """The row with that summary's fields, and the index of carriers kept."""
        if row.summary_seq is not None:
            left = tuple(key for key in self.by_summary[row.summary_seq] if key != row.key)
            self.by_summary = self.by_summary.set(row.summary_seq, left)
        if summary is None:
            return msgspec.structs.replace(row, summary_seq=None)
        held = self.by_summary.get(summary.key, ())
        self.by_summary = self.by_summary.set(summary.key, (*held, row.key))
        return msgspec.structs.replace(row, summary_seq=summary.key)
