"""One simulated session: the conversation model written through one shape's writer."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from .shapes import WRITERS
from .state import DIVERGING, ONLY_IN, PORTABLE, Talk
from .turns import exchange, fork

SHAPES: tuple[str, ...] = tuple(WRITERS)
FEATURES: frozenset[str] = PORTABLE | DIVERGING | frozenset(ONLY_IN)

_CWDS = ("/home/ada/project", "/home/ada/my project (copy)", "/srv/данные/数据", "/", None)


class SimulatedSession(Struct, frozen=True):
    """``lines`` is the whole log without newlines, the header line first; ``events`` counts packed
    rows by their members."""

    id: str
    shape: str
    header: dict[str, Any]
    lines: list[bytes]
    events: int

    @property
    def data(self) -> bytes:
        """The log as a file's bytes."""
        return b"\n".join([*self.lines, b""])


def session_id(seed: int) -> str:
    return f"sim-{seed:08d}"


def features_of(shape: str) -> frozenset[str]:
    """Every feature that the shape can say."""
    if shape not in WRITERS:
        raise ValueError(f"unknown shape {shape!r}; known: {', '.join(WRITERS)}")
    return (
        PORTABLE | DIVERGING | {feature for feature, shapes in ONLY_IN.items() if shape in shapes}
    )


def simulate(
    seed: int,
    *,
    events: int = 200,
    shape: str = "v4",
    features: Collection[str] | None = None,
    exchanges: int | None = None,
    start: int | None = None,
) -> SimulatedSession:
    """One session; the same arguments give the same bytes.

    It ends at the first quiet point with at least ``events`` events (or after ``exchanges``
    exchanges, whatever their events), except that with the feature ``open-end`` some are cut in
    mid turn, at ``events`` or so. ``features``: a part of :data:`FEATURES`; those that the shape
    cannot say are left out; all by default. With :data:`PORTABLE` and ``exchanges`` one seed is the
    same conversation in every shape. ``start``: epoch ms of its beginning (that of the seed)."""
    able = features_of(shape)
    wanted = able if features is None else frozenset(features)
    if not wanted <= FEATURES:
        raise ValueError(f"unknown features: {', '.join(sorted(wanted - FEATURES))}")
    writer = WRITERS[shape]()
    talk = Talk(Random(seed), writer, wanted & able, f"{seed:x}")  # noqa: S311 - seeded on purpose
    talk.now = talk.now if start is None else start
    created, extra = talk.now, _origin(talk, seed)
    forks_after = talk.below(4) if "parentSession" in extra and "origin" not in extra else -1
    done = last = 0
    while writer.seq < events if exchanges is None else done < exchanges:
        if done == forks_after:
            fork(talk)
        last = len(writer.lines)
        exchange(talk)
        done += 1
    if done and done > forks_after and talk.maybe("open-end", 0.3):
        writer.cut(last + talk.below(len(writer.lines) - last))
    header = writer.header(session_id(seed), created, extra)
    lines = [encode(header), *writer.lines]
    return SimulatedSession(session_id(seed), shape, header, lines, writer.seq)


def _origin(talk: Talk, seed: int) -> dict[str, Any]:
    """The header's optional keys: where it ran, and whose child it is (the session of the seed
    before)."""
    extra: dict[str, Any] = {}
    cwd = talk.pick(_CWDS)
    if cwd is not None:
        extra["cwd"] = cwd
    if talk.maybe("forks", 0.12):
        extra["parentSession"] = session_id(seed - 1)
    elif talk.maybe("subagents", 0.12):
        extra |= {"parentSession": session_id(seed - 1), "origin": "subagent"}
        extra["delegationDepth"] = 1
        talk.subagent = True
    return extra
