"""Commands, and the join of ``/compact`` to the marker it produced (projection.md §5.4).

Two proofs name a marker for a command: the checkpoint's own command id, and the summary seq that a
successful ``compact`` reports. They are looked up in indexes, so a change asks only the commands it
can concern; proximity, order and text prove nothing.
"""

from __future__ import annotations

import msgspec
from immutables import Map

from .changes import CommandData
from .compaction import Compaction, Compactions
from .events import CommandDone, CommandRun
from .out import Out, RowPlace
from .table import Table


class Command(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One command row; ``key`` is the seq in its key, ``marker`` the compaction row it carries."""

    key: int
    command_id: str
    turn: int | None
    step: int | None
    time: int | None
    name: str | None = None
    args: str | None = None
    status: str = "running"
    text: str | None = None
    run_seq: int | None = None
    done_seq: int | None = None
    done_time: int | None = None
    source_event_seq: int | None = None
    marker: int | None = None

    @property
    def claim(self) -> int | None:
        """The summary a successful ``compact`` says it wrote."""
        succeeded = self.name == "compact" and self.status == "success"
        return self.source_event_seq if succeeded else None


class Commands:
    """All commands of the session: few, and kept."""

    __slots__ = ("by_claim", "by_id", "table")

    def __init__(self) -> None:
        self.table: Table[Command] = Table()
        self.by_id: Map[str, tuple[int, ...]] = Map()
        self.by_claim: Map[int, tuple[int, ...]] = Map()

    def fork(self) -> Commands:
        twin = Commands.__new__(Commands)
        twin.table, twin.by_id, twin.by_claim = self.table.fork(), self.by_id, self.by_claim
        return twin

    def index(self) -> None:
        """Build what can be looked up from the records (after a restore)."""
        for key in sorted(self.table):
            command = self.table[key]
            held = self.by_id.get(command.command_id, ())
            self.by_id = self.by_id.set(command.command_id, (*held, key))
            if command.claim is not None:
                claims = self.by_claim.get(command.claim, ())
                self.by_claim = self.by_claim.set(command.claim, (*claims, key))

    def run(
        self,
        seq: int,
        time: int | None,
        place: tuple[int | None, int | None],
        body: CommandRun,
    ) -> tuple[Command, bool]:
        """``command/run``: a new row, or the run of one whose done came first (then False)."""
        assert body.command_id is not None
        turn, step = place
        latest = self._latest(body.command_id)
        is_new = latest is None or latest.run_seq is not None
        command = msgspec.structs.replace(
            Command(seq, body.command_id, turn, step, time) if is_new or latest is None else latest,
            turn=turn,
            step=step,
            time=time,
            name=body.name,
            args=body.args,
            run_seq=seq,
        )
        self._put(command)
        return command, is_new

    def done(
        self,
        seq: int,
        time: int | None,
        place: tuple[int | None, int | None],
        body: CommandDone,
    ) -> tuple[Command, bool]:
        """``command/done``: goes to the latest run of its id and replaces its outcome; without one
        it makes a row (then True)."""
        assert body.command_id is not None
        latest = self._latest(body.command_id)
        command = msgspec.structs.replace(
            latest or Command(seq, body.command_id, *place, time),
            status="success" if body.success else "error",
            text=body.text,
            done_seq=seq,
            done_time=time,
            source_event_seq=body.source_event_seq,
        )
        self._put(command)
        return command, latest is None

    def _latest(self, command_id: str) -> Command | None:
        keys = self.by_id.get(command_id)
        return self.table[keys[-1]] if keys else None

    def claim_of(self, command_id: str) -> int | None:
        """What the latest command of that id claims now."""
        latest = self._latest(command_id)
        return latest.claim if latest else None

    def _put(self, command: Command) -> None:
        old = self.table.get(command.key)
        if old is None:
            held = self.by_id.get(command.command_id, ())
            self.by_id = self.by_id.set(command.command_id, (*held, command.key))
        before = old.claim if old else None
        if before != command.claim:
            if before is not None:
                left = tuple(key for key in self.by_claim[before] if key != command.key)
                self.by_claim = self.by_claim.set(before, left)
            if command.claim is not None:
                held = self.by_claim.get(command.claim, ())
                self.by_claim = self.by_claim.set(command.claim, (*held, command.key))
        self.table.put(command.key, command)

    # --- the join -----------------------------------------------------------------------------

    def concerned_by(self, row: Compaction) -> set[int]:
        """The commands whose join may change because that marker did."""
        keys = set(self.by_id.get(row.command_id, ())[:2]) if row.command_id is not None else set()
        if row.summary_seq is not None:
            keys.update(self.by_claim.get(row.summary_seq, ())[:2])
        if row.joined is not None:
            keys.add(row.joined)
        return keys

    def concerned_with(self, command: Command, before: int | None) -> set[int]:
        """The commands whose join may change because ``command`` did; ``before`` is the claim it
        had. Of a claim only two matter: from the third on nothing changes for the others."""
        keys = set(self.by_id[command.command_id][-2:])
        for claim in (before, command.claim):
            if claim is not None:
                keys.update(self.by_claim.get(claim, ())[:2])
        keys.add(command.key)
        return keys

    def marker_of(self, command: Command, compactions: Compactions) -> Compaction | None:
        """The marker both proofs allow for that command, or None."""
        if len(self.by_id[command.command_id]) != 1:
            return None
        by_id = compactions.by_command.get(command.command_id, ())
        by_summary = self._proved_by_summary(command, compactions)
        if len(by_id) > 1:
            return None
        if by_id:
            agrees = by_summary is None or by_summary.key == by_id[0]
            return compactions.table[by_id[0]] if agrees else None
        if by_summary is not None and by_summary.command_id in (None, command.command_id):
            return by_summary
        return None

    def _proved_by_summary(self, command: Command, compactions: Compactions) -> Compaction | None:
        claim = command.claim
        if claim is None or len(self.by_claim.get(claim, ())) != 1:
            return None
        carriers = compactions.by_summary.get(claim, ())
        return compactions.table[carriers[0]] if len(carriers) == 1 else None


def join(
    keys: set[int], commands: Commands, compactions: Compactions, rev: int, out: Out
) -> set[int]:
    """Join and part those commands; the compaction rows whose own row may have to change."""
    touched: set[int] = set()
    for key in sorted(keys):
        command = commands.table[key]
        marker = commands.marker_of(command, compactions)
        target = marker.key if marker else None
        if command.marker != target:
            for row_key, joined in ((command.marker, None), (target, key)):
                if row_key is not None:
                    row = compactions.table[row_key]
                    compactions.put(msgspec.structs.replace(row, joined=joined))
                    touched.add(row_key)
            command = msgspec.structs.replace(command, marker=target)
            commands.table.put(key, command)
            publish_command(command, compactions, rev, out)
    return touched


def publish_command(command: Command, compactions: Compactions, rev: int, out: Out) -> None:
    marker = None if command.marker is None else compactions.table[command.marker]
    anchor = command.key if command.run_seq is None else command.run_seq
    if marker is not None:
        anchor = marker.anchor
    place = RowPlace(
        "command", command.key, anchor, 0, rev, True, command.turn, command.step, command.time
    )
    shown = None if marker is None else compactions.data_of(marker)
    if shown is not None:
        out.weight += len(shown.summary or "")
    data = CommandData(
        command.command_id,
        command.name,
        command.args,
        command.status,
        command.text,
        command.run_seq,
        command.done_seq,
        command.done_time,
        command.source_event_seq,
        shown,
    )
    out.row(place, data)


def publish_compaction(
    row: Compaction, commands: Commands, compactions: Compactions, rev: int, out: Out
) -> None:
    """A changed compaction: on its own row, or on the command row that carries it."""
    shown = None
    if row.joined is None:
        shown = RowPlace(
            "compaction", row.key, row.anchor, 0, rev, row.landed, row.turn, row.step, row.time
        )
        data = compactions.data_of(row)
        out.weight += len(data.summary or "")
        out.row(shown, data)
    else:
        if row.shown is not None:  # removed where it stood last
            out.row(msgspec.structs.replace(row.shown, rev=rev), None)
        publish_command(commands.table[row.joined], compactions, rev, out)
    compactions.put(msgspec.structs.replace(row, shown=shown))
