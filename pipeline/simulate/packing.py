"""Runs of stream deltas as one record, and runs of seqs as ranges (session-log.md §§1.4 to 1.6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from .writer import Chunk, Json

DELTAS = {
    "text-delta": ("text-chunks", "text", "texts"),
    "reasoning-delta": ("reasoning-chunks", "text", "texts"),
    "tool-call-delta": ("tool-call-chunks", "argumentsDelta", "args"),
}
PACK_FROM = 3  #: shortest run a packed row or a range holds


def packs(chunk: Json) -> bool:
    """Whether a chunk may be a member of a run."""
    return chunk["type"] in DELTAS and chunk.get("id") != "" and chunk.get("name") != ""


def runs(chunks: Sequence[Chunk]) -> Iterable[Sequence[Chunk]]:
    """Consecutive deltas of one block together, everything else alone."""
    start = 0
    identity: tuple[Any, ...] | None = None
    for at, (_, chunk) in enumerate(chunks):
        this = None
        if packs(chunk):
            this = (chunk["type"], chunk["index"], chunk.get("id"), chunk.get("name"))
        if at and (this is None or this != identity):
            yield chunks[start:at]
            start = at
        identity = this
    if chunks:
        yield chunks[start:]


def packed(run: Sequence[Chunk]) -> Json:
    """The members of a run as one record: ``type``, ``time0``, ``index``, ``dt`` and its texts."""
    time0, first = run[0]
    kind, text, texts = DELTAS[first["type"]]
    times = [time for time, _ in run]
    row: Json = {"type": kind, "time0": time0, "index": first["index"]}
    row["dt"] = [b - a for a, b in pairwise(times)]
    if kind == "tool-call-chunks":
        row["id"] = first["id"]
        if "name" in first:
            row["name"] = first["name"]
    row[texts] = [chunk[text] for _, chunk in run]
    return row


def ranges(seqs: list[int]) -> list[Any]:
    """Runs of three and more consecutive seqs as ``[first, last]``, if strictly increasing."""
    if any(b <= a for a, b in pairwise(seqs)):
        return seqs
    out: list[Any] = []
    at = 0
    while at < len(seqs):
        end = at
        while end + 1 < len(seqs) and seqs[end + 1] == seqs[end] + 1:
            end += 1
        if end - at + 1 >= PACK_FROM:
            out.append([seqs[at], seqs[end]])
        else:
            out += seqs[at : end + 1]
        at = end + 1
    return out
