"""Comparing two JSON values as JSON values, and the findings a comparison makes.

Numbers are doubles (1 = 1.0), a boolean is no number, a missing key is not ``null``; strings are
compared after joining surrogate halves that belong together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = Any
ABSENT = "(absent)"
_LONE = re.compile("[\ud800-\udfff]")


def joined(text: str) -> str:
    """``text`` with every high half that is followed by a low half made one character."""
    if _LONE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def scrubbed(text: str | None) -> str | None:
    """What a ``string`` field makes of ``text``: an unpaired half is U+FFFD."""
    return None if text is None else _LONE.sub("\ufffd", joined(text))


def same(left: Json, right: Json) -> bool:
    """Equal as JSON values."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right or float(left) == float(right)
    if type(left) is not type(right):
        return False
    if isinstance(left, str):
        return joined(left) == joined(right)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        one, two = ({joined(k): v for k, v in side.items()} for side in (left, right))
        return one.keys() == two.keys() and all(same(v, two[k]) for k, v in one.items())
    return bool(left == right)


def unlike(golden: Json, ours: Json, path: str = "") -> Iterator[tuple[str, Json, Json]]:
    """The smallest differing parts, as (path, golden, ours)."""
    if isinstance(golden, dict) and isinstance(ours, dict):
        for key in {**golden, **ours}:
            yield from unlike(golden.get(key, ABSENT), ours.get(key, ABSENT), f"{path}.{key}")
    elif isinstance(golden, list) and isinstance(ours, list) and len(golden) == len(ours):
        for index, pair in enumerate(zip(golden, ours, strict=True)):
            yield from unlike(*pair, f"{path}[{index}]")
    elif not same(golden, ours):
        yield path, golden, ours


@dataclass(frozen=True)
class Finding:
    """One place where we and the golden file differ.

    ``reason`` is the number of the deliberate difference that asks for our value; it is set only
    after our value was found equal to the one worked out from the log by that rule. None: nobody
    can say why.
    """

    where: str
    golden: Json
    ours: Json
    reason: int | None = None
    expected: Json = ABSENT
    note: str = ""

    def __str__(self) -> str:
        told = f" expected={short(self.expected)}" if self.expected is not ABSENT else ""
        mark = "unexplained" if self.reason is None else f"difference {self.reason}"
        note = f" ({self.note})" if self.note else ""
        sides = f"golden={short(self.golden)} ours={short(self.ours)}"
        return f"[{mark}] {self.where}: {sides}{told}{note}"


def short(value: Json, limit: int = 220) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 20]} … {text[-18:]}"


def check(where: str, golden: Json, ours: Json) -> list[Finding]:
    """Findings of an exact comparison, one per differing part (at most twelve)."""
    found = [Finding(where + path, g, o) for path, g, o in unlike(golden, ours)]
    return found[:12]


def settle(
    where: str, golden: Json, ours: Json, expected: Json, reason: int | None
) -> list[Finding]:
    """Equal to the golden value, or to ``expected`` where difference ``reason`` asks for it."""
    if same(golden, ours):
        return []
    explained = reason if reason is not None and same(expected, ours) else None
    return [Finding(where, golden, ours, explained, expected)]
