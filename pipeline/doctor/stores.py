"""The local stores of a worker, looked at without touching them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from pipeline.store.local import META
from pipeline.store.origin import Meta, Origin, Unusable, usable
from pipeline.store.rocks import Damaged, by_remedy

from .facts import Finding, plural


def look(folder: Path, origin: Origin, now_s: float) -> Iterator[Finding]:
    """Each partition's: for which topics it was written, and how far it is."""
    fine: list[Meta] = []
    for path in sorted(folder.glob("partition-*")):
        number = path.name.partition("-")[2]
        if not number.isdecimal() or not path.is_dir():
            continue
        try:
            fine.append(usable(_meta(path), origin, int(number), now_s))
        except Unusable as reason:
            what = f"cannot be used: {reason}"
            fix = "nothing: a worker that is given the partition reads it from the topic"
            yield Finding("warn", "store", str(path), what, fix)
    sessions = sum(meta.sessions for meta in fine)
    what = f"{plural(len(fine), 'partition')} with {plural(sessions, 'session')} of this cluster"
    yield Finding("ok", "store", str(folder), what)


def _meta(path: Path) -> bytes | None:
    """What the store says of itself as far as it is written out; a worker may be at it."""
    try:
        with by_remedy(path):
            only = AccessType.read_only()
            database = Rdict(str(path), Options(raw_mode=True), access_type=only)
            raw: bytes | None = database.get(META)
            database.close()
    except Damaged as error:
        raise Unusable(f"it is damaged: {error}") from error
    return raw
