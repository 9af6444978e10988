"""Usage of a family (parent, forks, subagents) is the sum of its members' own parts.

Public faults that these would have caught: an inherited prefix counted in every fork (five times
the real total: stablyai/orca#19139), usage summed over every report of a step or taken from its
first one (ccusage#389, #897, #1349, #1370), a retried attempt that is billed and lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import pytest
from msgspec import Struct

from operators.changes import UsageData
from operators.events import Usage
from pipeline.simulate import FEATURES, SHAPES, simulate
from tests.operators.readers import naive_figures as naive
from tests.operators.readers.figuring import figure

FAMILIES = 1_000
GROUPS = 10
#: Of what a session does, all but what makes its logs unlike any that a harness writes.
TAME = FEATURES - {"forks", "fork-anywhere", "hostile", "long"}


class Member(Struct, frozen=True):
    """``start``: first seq of the own part."""

    lines: list[bytes]
    start: int = 0


def family(number: int) -> list[Member]:
    """A parent, one or two forks of it that went on by themselves, up to two subagents."""
    dice, shape = Random(number), SHAPES[number % len(SHAPES)]
    whole = simulate(number, events=60, shape=shape, features=TAME).lines
    header, rows = whole[0], whole[1:]
    parent = rows[: dice.randint(len(rows) // 3, len(rows))]
    members = [Member([header, *parent])]
    for child in range(dice.randint(1, 2)):
        rest = rows[: dice.randint(len(parent) // 2, len(rows))]
        cut = dice.randint(1, len(rest))
        end = _after(rest[-1])
        start = _first(rest[cut]) if cut < len(rest) else end
        rest += retried(end, child) if dice.random() < 0.5 else []
        told = json.loads(header) | {"id": f"fork-{child}", "parentSession": "p"}
        members.append(Member([json.dumps(told | {"seedLength": start}).encode(), *rest], start))
    for child in range(dice.randint(0, 2)):
        made = simulate(number + 7_000_000 + child, events=30, shape=shape, features=TAME)
        told = json.loads(made.lines[0]) | {"parentSession": "p", "origin": "subagent"}
        members.append(Member([json.dumps(told).encode(), *made.lines[1:]]))
    return members


def retried(first: int, number: int) -> list[bytes]:
    """A turn whose stream reports usage twice, fails, and is retried: two attempts are billed."""
    place = {"turn": 9_000, "step": 1}

    def usage(tokens: int) -> dict[str, int]:
        return {"inputTokens": 100 + number, "outputTokens": tokens}

    def reported(tokens: int) -> tuple[str, dict[str, object]]:
        return "assistant/chunk", place | {"chunk": {"type": "usage", "usage": usage(tokens)}}

    retry = place | {"retryId": f"again-{first}", "retry": 1}
    text = [{"type": "text", "text": "done"}]
    message = {"id": f"late-{first}", "role": "assistant", "content": text}
    rows: list[tuple[str, dict[str, object]]] = [
        ("turn/start", {"turn": 9_000}),
        ("step/start", dict(place)),
        reported(1),
        reported(7),
        ("llm/retry", retry | {"maxRetries": 3, "delayMs": 0, "failure": {"message": "busy"}}),
        ("llm/retry-started", dict(retry)),
        reported(2),
        ("assistant/message", place | {"message": message, "usage": usage(9)}),
        ("step/end", dict(place)),
        ("turn/end", {"turn": 9_000, "reason": {"kind": "completed"}}),
    ]
    lines = []
    for at, (kind, data) in enumerate(rows):
        row = {"type": kind, "seq": first + at, "time": 1_800_000_000_000 + at, "data": data}
        append = {"surfaceOp": "append"} if kind == "assistant/message" else {}
        lines.append(json.dumps(row | append).encode())
    return lines


def _first(row: bytes) -> int:
    told = json.loads(row)
    return int(told.get("seq0", told.get("seq")))


def _after(row: bytes) -> int:
    told = json.loads(row)
    texts = told.get("data", {}).get("texts", told.get("data", {}).get("args", [0]))
    return _first(row) + (len(texts) if "seq0" in told else 1)


def families(group: int) -> Iterator[list[Member]]:
    return map(family, range(group, FAMILIES, GROUPS))


def counts(usage: Usage) -> naive.Counts:
    return usage.uncached_input, usage.output, usage.cache_read, usage.cache_write


def published(usage: UsageData) -> naive.Counts:
    """As the overview shows it."""
    return usage.uncached_input, usage.output, usage.cache_read, usage.cache_write


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_family_is_the_sum_of_its_own_parts(group: int) -> None:
    caught = dict.fromkeys(naive.FAULTS, 0)
    for members in families(group):
        found = [naive.samples(member.lines) for member in members]
        told = []
        for member, reports in zip(members, found, strict=True):
            figured = figure(member.lines)
            readers = figured.readers.counted(figured.session)
            routes = [counts(row.usage) for _, row in readers.billing.table()]
            own = naive.own_part(reports, member.start)
            assert naive.total(routes) == own, member.lines[0]
            assert published(figured.session.overview().usage) == own
            told.append(own)
        starts = [member.start for member in members]
        for name, fault in naive.FAULTS.items():
            wrong = naive.total(map(fault, found, starts))
            caught[name] += wrong != naive.total(told)
    assert min(caught.values()) > 0, caught  # each fault shows in some family


def test_a_fork_counts_nothing_of_its_prefix() -> None:
    """A fork that did nothing yet has no usage, no turns, no time and no lost context."""
    log = simulate(5, events=120, shape="v4", features=TAME).lines
    start = _after(log[-1])
    told = json.loads(log[0]) | {"parentSession": "p", "seedLength": start}
    more = {"type": "turn/start", "seq": start, "time": 1, "data": {"turn": 900}}
    child = [json.dumps(told).encode(), *log[1:], json.dumps(more).encode()]
    readers, parent = figure(child).readers, figure(log).readers
    assert readers.billing.table() == []
    assert readers.tokens.total == Usage()
    assert readers.statistics.times == type(readers.statistics.times)()
    assert not readers.losses.sums
    assert readers.prices.total == parent.prices.total  # the context is inherited
    assert parent.billing.table()
