"""One poll's records into the read model, in one transaction with the offsets after them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from sqlalchemy import Connection, select, tuple_

from . import store_tables as t
from .changes import Change, Committed, Offsets
from .records import EventLine, Incoming
from .statements import run, upsert
from .store_events import write_events
from .store_rows import write_partials, write_rows
from .store_sessions import Known, enter, known, write_overviews, write_reached
from .store_surface import write_surface

#: Of several topics of one partition, what holds comes before what refers to it.
FOLDED = ("transcript", "surface", "partials", "overview")
TOGETHER = 200


class Batch(Struct, frozen=True):
    """What a poll brought: decoded records by the role of their topic, in the order of their
    offsets, and where reading goes on."""

    items: Mapping[str, Sequence[Incoming]]
    offsets: Offsets


def apply(connection: Connection, batch: Batch, *, rebuilt: bool = False) -> Committed:
    """Write it; the caller's transaction makes it stand. Records of epochs below their session's
    are dropped: readers would ignore them (projection.md §3)."""
    named = [item for role in FOLDED for item in batch.items.get(role, ())]
    before = known(connection, {_session(item) for item in named})
    epochs, raised = _epochs(named, before)
    new = {s: epoch for s, epoch in epochs.items() if s not in before or s in raised}
    if new:
        enter(connection, new, {_session(item): item.partition for item in named})
    here = {s: k for s, k in before.items() if s not in raised}
    mine = {
        role: [i for i in batch.items.get(role, ()) if _epoch(i) == epochs[_session(i)]]
        for role in FOLDED
    }
    changes = _folded(connection, mine, here)
    lines = [i.item for i in batch.items.get("events", ()) if isinstance(i.item, EventLine)]
    write_events(connection, lines)
    places = [
        {"role": role, "partition": partition, "offset": offset}
        for (role, partition), offset in batch.offsets.items()
    ]
    run(connection, upsert(connection, t.positions, tuple(t.positions.primary_key)), places)
    return Committed(tuple(changes), dict(batch.offsets), raised, rebuilt)


def _folded(
    connection: Connection, mine: Mapping[str, Sequence[Incoming]], here: Mapping[str, Known]
) -> list[Change]:
    rows = write_rows(connection, mine["transcript"])
    reached = {session: k.surface_seq for session, k in here.items()}
    steps = write_surface(connection, mine["surface"], reached)
    write_reached(connection, {step.session: reached[step.session] for step in steps})
    texts = write_partials(connection, mine["partials"], _revs(connection, mine["partials"]))
    seqs = {session: k.seq for session, k in here.items()}
    return [*rows, *steps, *texts, *write_overviews(connection, mine["overview"], seqs)]


def _epochs(
    items: Iterable[Incoming], before: Mapping[str, Known]
) -> tuple[dict[str, int], dict[str, int]]:
    """Each session's epoch after these records, and those that rose."""
    epochs = {session: k.epoch for session, k in before.items()}
    for each in items:
        session = _session(each)
        epochs[session] = max(epochs.get(session, 0), _epoch(each))
    return epochs, {s: e for s, e in epochs.items() if s in before and e > before[s].epoch}


def _revs(connection: Connection, partials: Iterable[Incoming]) -> dict[tuple[str, str], int]:
    """The revisions of the rows that text came for."""
    keys = list({(_session(each), getattr(each.item, "key", "")) for each in partials})
    found: dict[tuple[str, str], int] = {}
    c = t.rows.c
    for at in range(0, len(keys), TOGETHER):
        some = tuple_(c.session, c.key).in_(keys[at : at + TOGETHER])
        for session, key, rev in connection.execute(select(c.session, c.key, c.rev).where(some)):
            found[session, key] = rev
    return found


def _session(each: Incoming) -> str:
    assert each.item.session is not None
    return each.item.session


def _epoch(each: Incoming) -> int:
    return each.item.epoch
