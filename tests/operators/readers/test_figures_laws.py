"""The laws hold for the figures, too: however a log is split, sent again, saved or copied, they say
what one fold of the whole log says; and what they keep of the surface is exact."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.readers import values
from operators.readers.prices import Prices
from operators.readers.rooms import Readers
from operators.session import Out
from pipeline.simulate import FEATURES, simulate
from tests.laws.test_one_event_one_cost import counting, early_and_late, median_of
from tests.operators.readers.figuring import Figuring, Read, figure, read_all, restored
from tests.strategies import any_logs, logs, splits


def figures(figuring: Figuring) -> dict[str, Any]:
    found = values.reference(figuring.readers, figuring.session)
    return found | values.own(figuring.readers, figuring.session)


def nodes(figuring: Figuring) -> list[tuple[int, int]]:
    table = figuring.readers.prices.table
    return [(node.seq, table[node.seq]) for node in figuring.session.surface.nodes()]


def batched(batches: list[list[Read]]) -> Figuring:
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
    json.dumps(figures(figuring))


@given(logs)
def test_prices_are_those_of_the_surface(log: list[bytes]) -> None:
    """Sums kept on the way are those of all nodes, asked one by one."""
    figuring = figure(log)
    surface, prices = figuring.session.surface, figuring.readers.prices
    kept = nodes(figuring)
    assert prices.total == sum(tokens for _, tokens in kept)
    assert len(prices.table) == len(kept)
    before = 0
    for node, (_, tokens) in zip(surface.nodes(), kept, strict=True):
        assert prices.before(node.key, surface) == before
        before += tokens
    systems = [prices.table[n.seq] for n in surface.nodes() if n.type == "system/message"]
    assert prices.last_system == next((t for t in reversed(systems) if t), 0)


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


@pytest.mark.parametrize("shape", ["v0", "v4"])
def test_one_event_one_cost(shape: str) -> None:
    """Lines executed by the readers alone per event, copies included, do not grow."""
    steady = FEATURES - {"long", "hostile", "forks", "open-end", "odd-times"}
    reads = read_all(simulate(11, events=4_000, shape=shape, features=steady).lines)
    figuring, costs = Figuring(), []
    for at in range(0, len(reads), 20):
        batch = reads[at : at + 20]
        with counting() as count:
            twin = Readers.fork(figuring.readers)
        lines = count[0]
        figuring.readers = twin
        for one in batch:
            before, out = figuring.session.as_of_seq, Out(partials=False)
            figuring.session.take(one.line, out)
            if figuring.session.as_of_seq != before:
                with counting() as count:
                    twin.take(one.rich, figuring.session, out)  # type: ignore[arg-type]
                lines += count[0]
        costs.append(lines / len(batch))
    early, late = early_and_late(costs)
    assert median_of(late) <= 1.2 * median_of(early)


def test_an_idle_session_keeps_little() -> None:
    """The head of a long session's readers, prices apart (they are a figure of their own)."""
    for seed, shape in enumerate(("v0", "v2", "v4")):
        log = simulate(seed, events=3_000, shape=shape, features=FEATURES - {"hostile"}).lines
        head = msgspec.json.encode(figure(log).readers.saved())
        assert len(head) < 800, head


def test_prices_are_saved_by_what_changed() -> None:
    prices = Prices()
    for seq in range(100):
        prices.append(seq, 5, is_system=False)
    assert prices.table.dirty == set(range(7))
    twin = prices.fork()
    twin.table.dirty.clear()
    twin.append(100, 7, is_system=False)
    assert twin.table.dirty == {6}
    assert twin.segment(6) == [*((seq, 5) for seq in range(96, 100)), (100, 7)]
