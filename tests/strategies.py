"""Hypothesis strategies for session logs: simulated, soup, mutated, arbitrary; and their splits."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, TypeVar

from hypothesis import strategies as st

from pipeline.simulate import SHAPES, SimulatedSession, simulate
from tests.laws.soup import soup

T = TypeVar("T")
seeds = st.integers(0, 2**24)
shapes = st.sampled_from(SHAPES)


def simulated(*, most: int = 120) -> st.SearchStrategy[SimulatedSession]:
    """Simulated sessions of every shape, up to about ``most`` events."""
    return st.builds(simulate, seeds, events=st.integers(1, most), shape=shapes)


def soups(*, gaps: bool = True, most: int = 60) -> st.SearchStrategy[list[bytes]]:
    """Logs of legal events in any order; see ``tests/laws/soup.py``."""
    numbers = st.sampled_from((0, 10, 30)).flatmap(  # else most of them would hold five lines
        lambda least: st.lists(st.integers(0, 2**20), min_size=least, max_size=most)
    )
    return numbers.map(lambda drawn: soup(drawn, gaps=gaps))


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 30)
    | st.sampled_from([2**53, -(2**63), 1.5, 18.0, 1e300, "", "a", "append", "replace", "\ud800"])
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "type",
                    "seq",
                    "seq0",
                    "time",
                    "data",
                    "turn",
                    "step",
                    "op",
                    "start",
                    "end",
                    "kind",
                    "id",
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


json_lines = json_values.map(dump)
arbitrary_lines = st.binary(max_size=40) | json_lines


@st.composite
def mutated(draw: st.DrawFn, logs: st.SearchStrategy[list[bytes]]) -> list[bytes]:
    """A log with a few lines dropped, repeated, swapped, torn, or changed in one JSON value."""
    lines = list(draw(logs))
    for _ in range(draw(st.integers(1, 4))):
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        how = draw(st.sampled_from(("value", "value", "value", "drop", "repeat", "swap", "tear")))
        if how == "drop":
            del lines[at]
        elif how == "repeat":
            lines.insert(draw(st.integers(0, len(lines))), lines[at])
        elif how == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif how == "tear":
            lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
        else:
            lines[at] = draw(_changed(lines[at]))
    return lines


@st.composite
def _changed(draw: st.DrawFn, line: bytes) -> bytes:
    """The line with the value at one path replaced, or its key left out."""
    try:
        record = json.loads(line)
    except ValueError:
        return line
    parent: Any = None
    key: Any = None
    value = record
    while isinstance(value, dict | list) and value and draw(st.integers(0, 3)):
        parent = value
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = draw(st.sampled_from(keys))
        value = value[key]
    if parent is None:
        return dump(draw(json_values))
    if draw(st.booleans()):
        parent[key] = draw(json_values)
    else:
        del parent[key]
    return dump(record)


def _body(session: SimulatedSession) -> list[bytes]:
    return session.lines


simulated_logs = simulated().map(_body)
#: Every log that is JSON throughout: simulated ones and soups.
logs = simulated_logs | soups()
#: Every log there can be.
any_logs = (
    logs
    | mutated(simulated(most=40).map(_body))
    | mutated(soups())
    | st.lists(arbitrary_lines, max_size=12)
)


@st.composite
def splits(draw: st.DrawFn, lines: list[T]) -> list[list[T]]:
    """The lines in batches, in order; empty batches too."""
    cuts = sorted(draw(st.lists(st.integers(0, len(lines)), max_size=5)))
    edges = [0, *cuts, len(lines)]
    return [lines[a:b] for a, b in pairwise(edges)]
