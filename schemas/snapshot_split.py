"""Snapshot records cut to a size that every broker takes (streams.md §2: snapshots are split).

A record longer than ``PART`` bytes goes on in ``NAME/1``, ``NAME/2``, …; its own name holds the
first part. The head counts the further parts of all others, so that none is missed.
"""

from __future__ import annotations

from collections.abc import Mapping

from immutables import Map

PART = 1 << 20  #: bytes of one record; the smallest default limit around is 1 MiB and a bit


def split(
    records: dict[str, bytes | None], parts: Map[str, int]
) -> tuple[dict[str, bytes | None], Map[str, int]]:
    """The records in parts, gone parts as None; ``parts`` is how many further ones each name has,
    before and after."""
    if not parts and not any(value and len(value) > PART for value in records.values()):
        return records, parts
    cut: dict[str, bytes | None] = {}
    for name, value in records.items():
        cut[name] = value if value is None else value[:PART]
        more = 0 if value is None else max(0, len(value) - 1) // PART
        before = parts.get(name, 0)
        for n in range(1, max(more, before) + 1):
            found = b"" if value is None else value[n * PART : (n + 1) * PART]
            cut[f"{name}/{n}"] = found or None
        if more:
            parts = parts.set(name, more)
        elif before:
            parts = parts.delete(name)
    return cut, parts


def join(records: Mapping[str, bytes]) -> tuple[dict[str, bytes], Map[str, int]]:
    """The whole records, and how many further parts each had."""
    more: dict[str, int] = {}
    for name in records:
        whole, slash, number = name.rpartition("/")
        if slash:
            more[whole] = max(more.get(whole, 0), int(number))
    whole_records = {name: value for name, value in records.items() if "/" not in name}
    for name, count in more.items():
        rest = [records[f"{name}/{n}"] for n in range(1, count + 1)]
        whole_records[name] = b"".join([records[name], *rest])
    return whole_records, Map(more)
