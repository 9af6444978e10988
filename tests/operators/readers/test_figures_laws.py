"""The laws hold for the figures, too: however a log is split, sent again, saved or copied, they say
what one fold of the whole log says; and what they keep of the surface is exact."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from operators.events import Line
from operators.readers import values
from operators.session import Out
from pipeline.simulate import FEATURES, simulate
from schemas.snapshot_readers import encode_readers
from tests.operators.readers.figuring import Figuring, figure, read_all, restored
from tests.strategies import any_logs, logs, splits


def figures(figuring: Figuring) -> dict[str, Any]:
    session = figuring.session
    return values.reference(figuring.readers, session.surface) | {
        "ours": msgspec.json.encode(session.overview())
    }


def nodes(figuring: Figuring) -> list[tuple[int, int]]:
    return [(node.seq, node.tokens) for node in figuring.session.surface.nodes()]


def batched(batches: list[list[Line]]) -> Figuring:
    figuring = Figuring()
    for batch in batches:
        figuring, out = figuring.fork(), Out()
        for one in batch:
            figuring.take(one, out)
    return figuring


@given(any_logs)
def test_replay_is_live(log: list[bytes]) -> None:
    whole = figure(log)
    live = batched([[one] for one in read_all(log)])
    assert figures(live) == figures(whole)
    assert nodes(live) == nodes(whole)


@given(any_logs, st.data())
def test_batches_do_not_show(log: list[bytes], data: st.DataObject) -> None:
    split = batched(data.draw(splits(read_all(log)), label="batches"))
    whole = figure(log)
    assert figures(split) == figures(whole)
    assert nodes(split) == nodes(whole)


@given(any_logs, st.data())
def test_redelivery_is_silent(log: list[bytes], data: st.DataObject) -> None:
    reads, figuring = read_all(log), Figuring()
    took = []
    for one in reads:
        before = figuring.session.as_of_seq
        figuring.take(one)
        took += [one] if figuring.session.as_of_seq != before else []
    told = figures(figuring)
    first = data.draw(st.integers(0, len(took)), label="first")
    figuring.take_all(took[first:])
    assert figures(figuring) == told


@given(any_logs, st.data())
def test_failed_batch_leaves_no_trace(log: list[bytes], data: st.DataObject) -> None:
    reads = read_all(log)
    cut = data.draw(st.integers(0, len(reads)), label="cut")
    figuring = Figuring().take_all(reads[:cut])
    told, kept = figures(figuring), nodes(figuring)
    figuring.fork().take_all(reads[cut:])
    assert (figures(figuring), nodes(figuring)) == (told, kept)


@given(any_logs, st.data())
def test_snapshot_then_tail(log: list[bytes], data: st.DataObject) -> None:
    reads = read_all(log)
    cut = data.draw(st.integers(0, len(reads)), label="prefix")
    figuring = Figuring().take_all(reads[:cut])
    resumed = restored(figuring)
    assert figures(resumed) == figures(figuring)
    whole = figure(log)
    resumed.take_all(reads[cut:])
    assert figures(resumed) == figures(whole)
    assert nodes(resumed) == nodes(whole)


@given(any_logs)
def test_no_input_crashes(log: list[bytes]) -> None:
    figuring = figure(log, reference=True)
    assert figures(figuring)


@given(logs)
def test_prices_are_those_of_the_surface(log: list[bytes]) -> None:
    """Sums kept on the way are those of all nodes, asked one by one."""
    figuring = figure(log)
    surface, systems = figuring.session.surface, figuring.readers.systems
    before = 0
    for node in surface.nodes():
        assert surface.tokens_before(node.key) == before
        before += node.tokens
    assert surface.tokens == before
    said = [n for n in surface.nodes() if n.type == "system/message" and n.tokens]
    assert systems.last == (said[-1].tokens if said else 0)
    assert dict(systems.prices) == {node.seq: node.tokens for node in said}


@given(logs)
def test_what_was_lost_adds_up(log: list[bytes]) -> None:
    """Sums by cause are those of the breaks, and no break keeps or loses more than there was."""
    readers = figure(log, reference=True).readers
    found = readers.breaks or []
    by_cause = {cause: lost.tokens for cause, lost in readers.losses.sums.items()}
    assert by_cause == {
        cause: sum(b.invalidated for b in found if b.cause == cause) for cause in by_cause
    }
    assert sum(lost.breaks for lost in readers.losses.sums.values()) == len(found)
    assert all(b.prefix_tokens >= 0 <= b.invalidated for b in found)


def test_an_idle_session_keeps_little() -> None:
    """What the readers of a long session take in its head, without todos and living contexts."""
    for seed, shape in enumerate(("v0", "v2", "v4")):
        log = simulate(seed, events=3_000, shape=shape, features=FEATURES - {"hostile"}).lines
        head = encode_readers(figure(log).readers)
        assert len(head) < 1024, head
