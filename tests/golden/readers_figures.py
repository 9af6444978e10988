"""``readers.json``: statistics, usage, pressure, breakdown and measure, finals and prefixes; and
those of ``reader_cases.json``.

Where the reference threw (``error``) its rule has no answer. Ours has one, and what it must be is
said here: the surface's exact sum, and all other figures as numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from operators.events import CompactionSummary, Event, Line, Prune
from operators.readers import values
from tests.golden.differences import Difference
from tests.golden.values import Finding, check, settle
from tests.operators.readers.figuring import Figuring, read_all

Node = dict[str, Any]
KEYS = (
    "sessionStats",
    "tokenUsage",
    "contextPressure",
    "contextBreakdown",
    "contextBreakdownMetered",
    "measure",
)
_REPLACE = re.compile(r"replace at seq (\d+) over range .* no adjacent shadow price")
#: What the golden files say of a figure, and is none.
REMARKS = ("refusedByViewSchema", "toolsToken")
ASTRAY = 201
ANCHORLESS = 202
LEGACY = 203
#: Where ours is another value on purpose, by number; each is asserted where it is met.
DIFFERENCES = {
    ASTRAY: Difference(
        ASTRAY,
        "a claim for another range than the replacement's leaves the metered total as it was",
        "_unclaimed: the figures of the log without that metering event",
    ),
    ANCHORLESS: Difference(
        ANCHORLESS,
        "a message outside of its step, or citing what is no chunk, anchors no measure",
        "_measure: nodes and surface exact, total the baseline and the delta, at least 0",
    ),
    LEGACY: Difference(
        LEGACY,
        "messages without a message inside are folded; the reference throws",
        "_instead: every figure is a number; _measure",
    ),
}


def compare(golden: Node, lines: Iterable[bytes]) -> list[Finding]:
    """Every key of ``readers.json`` that is here, against the log's lines without their header."""
    reads = read_all(lines)
    told = {key: golden[key] for key in KEYS if key in golden}
    wanted = {n for value in told.values() for n, _ in value.get("prefixes", ())}
    prefixes, final = played(reads, wanted)
    final["unclaimed"] = _unclaimed(reads, told)
    found: list[Finding] = []
    for key, value in told.items():
        last = value.get("final", value)
        found += _compared(f"R {key}", key, last, final)
        for length, prefix in value.get("prefixes", ()):
            found += _compared(f"R {key} first {length}", key, prefix, prefixes[length])
    return found


def compare_cases(told: Node) -> dict[str, list[Finding]]:
    """The small logs of ``reader_cases.json``, by name."""
    found: dict[str, list[Finding]] = {}
    for case in told["folds"]:
        lines = [json.dumps(event).encode() for event in case["events"]]
        reads = read_all(lines)
        _, final = played(reads, set())
        final["unclaimed"] = _unclaimed(reads, case)
        keys = [key for key in KEYS if key in case]
        found[case["name"]] = [f for k in keys for f in _compared(f"R {k}", k, case[k], final)]
    return found


def played(reads: list[Line], wanted: set[int]) -> tuple[dict[int, Node], Node]:
    """Our figures after each wanted number of events, and after all."""
    figuring, count, prefixes = Figuring(reference=True), 0, {}
    for one in reads:
        figuring.take(one)
        count += one.count if isinstance(one, Event) else 1
        if count in wanted:
            prefixes[count] = _figures(figuring)
    return prefixes, _figures(figuring)


def _figures(figuring: Figuring) -> Node:
    found = values.reference(figuring.readers, figuring.session.surface)
    nodes = [[node.seq, 0] for node in figuring.session.surface.nodes()]
    return found | {"surface": nodes}


def _unclaimed(reads: list[Line], told: Node) -> Node:
    """The figures when the metering event at which the reference gave up were none."""
    named = _REPLACE.search(
        str(told.get("contextBreakdown") or told.get("contextBreakdownMetered"))
    )
    if named is None:
        return {}
    at = int(named[1]) - 1
    return played([_meterless(one, at) for one in reads], set())[1]


def _meterless(line: Line, at: int) -> Line:
    """The line, without its claim if it is the event of that seq."""
    if isinstance(line, Event) and line.seq == at:
        body = line.body
        if isinstance(body, CompactionSummary | Prune):
            return replace(line, body=replace(body, claim=None))
    return line


def _compared(where: str, key: str, golden: Node, final: Node) -> list[Finding]:
    ours = final[key]
    if "error" in golden:
        return _instead(where, key, str(golden["error"]), final)
    golden = {name: value for name, value in golden.items() if name not in REMARKS}
    if key == "measure" and "nodes" not in golden:
        ours = {name: value for name, value in ours.items() if name != "nodes"}
    return check(where, golden, ours)


def _instead(where: str, key: str, error: str, final: Node) -> list[Finding]:
    """Our value where the reference has none."""
    ours = final[key]
    if key == "measure":
        return settle(where, error, ours, _measure(final), _reason(error))
    if _reason(error) == ASTRAY:
        return settle(where, error, ours, final["unclaimed"][key], ASTRAY)
    expected = {name: value for name, value in ours.items() if type(value) is int}
    return settle(where, error, ours, expected, _reason(error))


def _reason(error: str) -> int:
    if "no adjacent shadow price" in error:
        return ASTRAY
    return ANCHORLESS if "token meter" in error else LEGACY


def _measure(final: Node) -> Node:
    """What a measure must say in itself: every node of the surface, their sum, and a total that
    follows from baseline and delta."""
    ours = final["measure"]
    prices = [tokens for _, tokens in ours["nodes"]]
    nodes = [[seq, tokens] for (seq, _), tokens in zip(final["surface"], prices, strict=True)]
    baseline, delta = ours["baseline"]["tokens"], ours["surfaceDeltaTokens"]
    return {
        **ours,
        "nodes": nodes,
        "surfaceTokens": sum(prices),
        "totalTokens": max(0, baseline + delta),
    }
