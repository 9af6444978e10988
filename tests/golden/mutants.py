"""Golden logs, spoilt: events dropped, swapped, doubled and moved, ids and numbers changed.

What comes out is a log that no harness writes, numbered anew, so that the fold and the model must
agree on rules alone. Every choice comes from the given generator.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

Event = dict[str, Any]
NUMBERS = ("turn", "step")
IDS = (
    "callId",
    "commandId",
    "compactionId",
    "retryId",
    "rootCallId",
    "sourceCommandId",
)


def drop(events: list[Event], rng: Random) -> None:
    at = rng.randrange(len(events))
    del events[at : at + rng.choice((1, 1, 1, 2, 5))]


def swap(events: list[Event], rng: Random) -> None:
    one = rng.randrange(len(events))
    two = min(max(one + rng.choice((-3, -1, 1, 2, 5)), 0), len(events) - 1)
    events[one], events[two] = events[two], events[one]


def double(events: list[Event], rng: Random) -> None:
    events.insert(rng.randrange(len(events) + 1), copy.deepcopy(rng.choice(events)))


def renumber_step(events: list[Event], rng: Random) -> None:
    """Another turn or step for one event."""
    data = rng.choice(events).get("data")
    for name in NUMBERS:
        if isinstance(data, dict) and name in data and rng.random() < 0.5:
            data[name] = rng.choice((1, 2, 3))


def rename(events: list[Event], rng: Random) -> None:
    """The ids of another event of the type."""
    event = rng.choice(events)
    other = rng.choice([e for e in events if e["type"] == event["type"]]).get("data")
    data = event.get("data")
    if isinstance(data, dict) and isinstance(other, dict):
        data.update({name: other[name] for name in IDS if name in data and name in other})


def respell(events: list[Event], rng: Random) -> None:
    """Another chunk in the place of one: other index, a block begun again, a blank or odd delta."""
    chunks = [e["data"] for e in events if e["type"] == "assistant/chunk"]
    if not chunks:
        return
    data = rng.choice(chunks)
    index = rng.choice((0, 1, 2))
    kind = rng.choice(("text", "reasoning", "tool-call", "image"))
    data["chunk"] = rng.choice(
        (
            {**data["chunk"], "index": index},
            {"type": "block-start", "index": index, "blockType": kind},
            {"type": "text-delta", "index": index, "text": rng.choice((" ", "", "x\ud83d"))},
            {"type": "reasoning-delta", "index": index, "text": "\ufeff"},
            {
                "type": "tool-call-delta",
                "index": index,
                "id": "q",
                "name": "",
                "argumentsDelta": "",
            },
            {"type": "usage", "usage": {"inputTokens": 1, "outputTokens": 2}},
        )
    )


def rehang(events: list[Event], rng: Random) -> None:
    """A nested call under another parent, or by another name."""
    nested = [e["data"] for e in events if "-dispatch" in e["type"]]
    if nested:
        data = rng.choice(nested)
        known = [data.get(name) for name in ("rootCallId", "parentCallId", "subCallId")]
        data[rng.choice(("parentCallId", "subCallId"))] = rng.choice([*known, "nobody"])


def shorten(events: list[Event], rng: Random) -> None:
    """The log's beginning or end alone."""
    at = rng.randrange(len(events))
    if rng.random() < 0.5:
        del events[: at // 2]
    else:
        del events[max(at, 2) :]


MUTATIONS: tuple[Callable[[list[Event], Random], None], ...] = (
    drop,
    drop,
    swap,
    swap,
    double,
    renumber_step,
    rename,
    respell,
    rehang,
    shorten,
)


def mutant(events: list[Event], rng: Random) -> list[Event]:
    """A spoilt copy with seqs from 0; what cites a seq cites the event that had it."""
    spoilt = copy.deepcopy(events)
    for _ in range(rng.randint(1, 6)):
        if len(spoilt) > 2:
            rng.choice(MUTATIONS)(spoilt, rng)
    places: dict[int, int] = {}
    for place, event in enumerate(spoilt):
        places.setdefault(event["seq"], place)
    return [_numbered(event, place, places) for place, event in enumerate(spoilt)]


def _numbered(event: Event, place: int, places: dict[int, int]) -> Event:
    event = copy.deepcopy(event)
    event["seq"] = place
    cited = event.get("sourceEventSeqs")
    if isinstance(cited, list):
        flat = [n for c in cited for n in (range(c[0], c[1] + 1) if isinstance(c, list) else [c])]
        found = dict.fromkeys(places[n] for n in flat if n in places)
        kept = [n for n in found if n < place]
        event["sourceEventSeqs"] = kept
        if not kept and event["type"] != "assistant/message":
            del event["sourceEventSeqs"]
    op = event.get("surfaceOp")
    if isinstance(op, dict):
        for name, value in op.items():
            op[name] = places.get(value, value)
    data = event.get("data")
    if isinstance(data, dict) and data.get("sourceEventSeq") in places:
        data["sourceEventSeq"] = places[data["sourceEventSeq"]]
    return event
