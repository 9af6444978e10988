"""Figures of a run: quantiles, slopes, and a table of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import ceil
from statistics import linear_regression


def quantile(values: Sequence[float], share: float) -> float:
    """The least value that at least ``share`` of them do not exceed."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Growth per unit of the first coordinate, by least squares; 0 of fewer than two moments."""
    if len({at for at, _ in points}) < 2:
        return 0.0
    return linear_regression([at for at, _ in points], [value for _, value in points]).slope


def table(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Columns as wide as their widest cell; those of ``left`` begin, the others end in line."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(["", *lines, ""])
