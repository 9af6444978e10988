"""Event soup: legal vocabulary in illegal order.

A log is a list of integers, one per line, so that Hypothesis shrinks it by leaving lines out; what
a line is follows from its integer, where it points to from its place in the log.

The ids, turns and steps come from tiny pools, so that everything meets everything: reused call ids,
results before their calls, turns that open again, checkpoints of checkpoints, late chunks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from tests.laws.soup_events import WHEEL, Pot


def soup(numbers: Iterable[int], *, gaps: bool = True) -> list[bytes]:
    """One line per number. With ``gaps`` some lines repeat a seq or leave some out."""
    lines: list[bytes] = []
    surface: list[int] = []
    seq = 0
    for number in numbers:
        pot = Pot(number, seq, surface)
        maker = pot.pick(WHEEL)
        if gaps and pot.chance(0.02):
            pot.seq = seq = max(0, seq + pot.pick((-2, -1, 1, 3)))
        record = maker(pot)
        time = seq * 10 if not pot.chance(0.03) else pot.pick((0, -5, None, 1.5))
        count = 1
        if record["type"].endswith("-chunks"):
            texts = record["data"].get("texts") or record["data"]["args"]
            count = len(texts)
            record = {"type": record["type"], "seq0": seq, "time0": seq * 10} | record
        else:
            record = {"type": record["type"], "seq": seq, "time": time} | record
        if "surfaceOp" in record:
            surface.append(seq)
        lines.append(json.dumps(record, separators=(",", ":")).encode())
        seq += count
    return lines
