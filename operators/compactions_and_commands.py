"""What compaction and command events change: two rooms that join (projection.md §5.3, §5.4)."""

from __future__ import annotations

import msgspec

from .commands import join, publish_command, publish_compaction
from .compaction import Compaction
from .events import (
    Checkpoint,
    CommandDone,
    CommandRun,
    CompactionEnd,
    CompactionStart,
    CompactionSummary,
    EndSeed,
    Event,
)
from .out import Out
from .rooms import Rooms
from .totals import add


def on_compaction_start(rooms: Rooms, event: Event, body: CompactionStart, out: Out) -> None:
    place = rooms.turns.place(body.turn, None)
    row = rooms.compactions.start(event.seq, event.time, place, body)
    if row is not None:
        _publish(rooms, [row], event.seq, out)


def on_compaction_summary(rooms: Rooms, event: Event, body: CompactionSummary, out: Out) -> None:
    _publish(rooms, rooms.compactions.summarize(event.seq, body), event.seq, out)
    if body.usage is not None:
        rooms.totals.compaction_usage = add(rooms.totals.compaction_usage, body.usage)


def on_compaction_end(rooms: Rooms, event: Event, body: CompactionEnd, out: Out) -> None:
    generation = rooms.totals.generation
    rows = []
    for row in rooms.compactions.end(event.time, body):
        if row.status == "failed" and row.failed_generation != generation:
            rooms.totals.count("compactions_failed")
            row = msgspec.structs.replace(row, failed_generation=generation)
            rooms.compactions.put(row)
        rows.append(row)
    _publish(rooms, rows, event.seq, out)


def on_end_seed(rooms: Rooms, event: Event, body: EndSeed, out: Out) -> None:
    _publish(rooms, rooms.compactions.stale(), event.seq, out)
    if body.inherited:
        rooms.cut(event.seq)


def on_landed(rooms: Rooms, event: Event, checkpoint: Checkpoint, out: Out) -> None:
    """An accepted checkpoint."""
    place = rooms.turns.place(None, None)
    row, robbed = rooms.compactions.land(event.seq, event.time, place, checkpoint, event.sources)
    if row.failed_generation == rooms.totals.generation:
        rooms.totals.count("compactions_failed", -1)
        rooms.compactions.put(msgspec.structs.replace(row, failed_generation=-1))
    rooms.totals.count("compactions_landed")
    rooms.prompt_tokens = None
    changed = [row, *robbed]
    keys: set[int] = set()
    for marker in changed:
        keys |= rooms.commands.concerned_by(marker)
    touched = join(keys, rooms.commands, rooms.compactions, event.seq, out)
    _publish_keys(rooms, touched | {marker.key for marker in changed}, event.seq, out)


def on_command(rooms: Rooms, event: Event, body: CommandRun | CommandDone, out: Out) -> None:
    if body.command_id is None:
        return rooms.note("malformed")
    commands, place = rooms.commands, rooms.turns.place(None, None)
    before = commands.claim_of(body.command_id)
    if isinstance(body, CommandRun):
        command, is_new = commands.run(event.seq, event.time, place, body)
    else:
        command, is_new = commands.done(event.seq, event.time, place, body)
    rooms.totals.count("commands", int(is_new))
    keys = commands.concerned_with(command, before)
    touched = join(keys, commands, rooms.compactions, event.seq, out)
    publish_command(commands.table[command.key], rooms.compactions, event.seq, out)
    return _publish_keys(rooms, touched, event.seq, out)


def _publish(rooms: Rooms, rows: list[Compaction], rev: int, out: Out) -> None:
    _publish_keys(rooms, {row.key for row in rows}, rev, out)


def _publish_keys(rooms: Rooms, keys: set[int], rev: int, out: Out) -> None:
    for key in sorted(keys):
        row = rooms.compactions.table[key]
        publish_compaction(row, rooms.commands, rooms.compactions, rev, out)
