"""What the store of a partition was written for, and whether it still is of use."""

from __future__ import annotations

import msgspec
from msgspec import Struct

FORMAT = 1
"""Of a store: keys, values and `Meta`. Another layout is another number; either way the topic has
it all, so no store is ever migrated."""

CLOCKS_DIFFER_S = 300.0
"""A store from further in the future means that a clock jumped, and that no age can be trusted."""


class Origin(Struct, frozen=True):
    """``cluster`` and ``topic`` are Kafka's ids, not names: a topic that was deleted and made again
    under its name has another one. ``tombstones_s``: the state topic's ``delete.retention.ms``;
    after that long a deletion may be gone from the topic itself."""

    cluster: str
    topic: str
    application: str
    tombstones_s: float


class Meta(Struct, frozen=True):
    """Of one partition: written in one step with the states it speaks of. ``position``: the offset
    of the state topic to read on from; ``seen``: epoch seconds at which no deletion before it could
    be missing."""

    format: int
    cluster: str
    topic: str
    application: str
    partition: int
    position: int
    sessions: int
    seen: float


encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Meta).decode


class _Format(Struct):
    format: int


class Unusable(Exception):  # noqa: N818 - a reason rather than an error: the store is read anew
    """Why a store cannot be used."""


def usable(raw: bytes | None, origin: Origin, partition: int, now: float) -> Meta:
    """The record of a store, or `Unusable` with the reason."""
    if raw is None:
        raise Unusable("nothing was written out before its worker ended")
    try:
        written = msgspec.json.decode(raw, type=_Format).format
        if written != FORMAT:
            age = "a newer" if written > FORMAT else "an older"
            raise Unusable(f"{age} version wrote it (format {written}, this one reads {FORMAT})")
        meta = _decode(raw)
    except msgspec.MsgspecError as error:
        raise Unusable(f"its record of itself cannot be read: {error}") from error
    if meta.cluster != origin.cluster:
        raise Unusable(f"it is of another cluster ({meta.cluster}, not {origin.cluster})")
    if meta.topic != origin.topic:
        raise Unusable(f"the state topic was made anew (id {origin.topic}, was {meta.topic})")
    if (meta.application, meta.partition) != (origin.application, partition):
        raise Unusable(f"it is of partition {meta.partition} of application {meta.application!r}")
    age_s = now - meta.seen
    if age_s > origin.tombstones_s:
        raise Unusable(
            f"it is {age_s / 3600:.1f} h old, and the topic keeps deletions for "
            f"{origin.tombstones_s / 3600:.1f} h"
        )
    if age_s < -CLOCKS_DIFFER_S:
        raise Unusable(f"it is from {-age_s / 3600:.1f} h in the future: a clock jumped")
    return meta
