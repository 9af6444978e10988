"""Snapshots: what is saved when, what a restored session is, what is refused with which remedy."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from immutables import Map
from msgspec.json import encode

from operators.events import Line
from operators.session import Out, Session
from schemas import snapshot
from schemas.inbound import read_line
from schemas.snapshot import HEAD, SnapshotError, load, names, save
from schemas.snapshot_split import PART, split
from tests.laws.folding import SESSION, Saved, bytes_of, one_batch
from tests.operators.build import lines_of
from tests.operators.records import (
    Json,
    block_end,
    call,
    checkpoint,
    compaction_start,
    delta,
    done,
    nested,
    packed,
    replacing,
    result,
    retry,
    run,
    say,
    spent,
    splice,
    step_end,
    step_start,
    summary,
    system,
    text,
    turn_end,
    turn_start,
    usage_chunk,
    user,
)

HEADER: Json = {"type": "session", "id": SESSION, "version": 0, "cwd": "/home/me/work"}


def turn(number: int) -> list[Json]:
    """A settled turn of fourteen events, with a tool call."""
    id_ = f"m-{number}"
    one: Any = {"turn": number}
    two: Any = {"turn": number, "step": 2}
    return [
        splice(id_, to="next-turn"),
        turn_start(number),
        splice(to="next-turn", removed=1),
        step_start(**one),
        user("question", id_=id_),
        delta("an", **one),
        say("answer", calls=(id_,), usage=spent(5), **one),
        call(id_, **one),
        result(id_, **one),
        step_end(**one),
        step_start(**two),
        say("done", usage=spent(7), **two),
        step_end(**two),
        turn_end(number),
    ]


def turns(events: int) -> list[Line]:
    """Turns numbered one after another, as a harness numbers them."""
    records: list[Json] = [HEADER]
    for number in range(1, events // 14 + 2):
        records += turn(number)
    return lines_of(*records)


#: Something in every room: what is open, what waits, what joined, what is kept.
EVERYTHING: tuple[Json, ...] = (
    HEADER | {"seedLength": 2, "parentSession": "p", "createdAt": 5},
    system(),
    user(),
    splice("m-1", "m-2"),
    splice(removed=1),
    run(),
    summary(command="c"),
    checkpoint(1, 1, [1, 5], command="c"),
    done(source=5),
    compaction_start("k2"),
    *(turn_start(), step_start(), say("x", calls=("a", "b"), usage=spent(5)), call(), call("b")),
    *(nested(), nested("late", root="nobody"), result("b", "\ud83d"), step_end(), turn_end()),
    *(turn_start(2), step_start(1, 2), delta("a\ud83d", turn=2), usage_chunk(3, turn=2)),
    *(retry(turn=2), delta("b" * 9000, turn=2), delta(" c", 1, turn=2), packed("d", "e", turn=2)),
    block_end(text("\ud83d") | {"n": 1}, 2, turn=2),
    {"type": "acme/new"},
    user(surfaceOp=1),
    user(seq=99),
    replacing(user(), 70, 99, [70, 99]),
)


def saved(lines: Iterable[Line]) -> tuple[Session, Saved]:
    store = Saved()
    state, _ = one_batch(Session(SESSION), lines)
    store.save(state)
    return state, store


# --- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(len(EVERYTHING) + 1))
def test_a_restored_session_saves_the_same_again(count: int) -> None:
    state, store = saved(lines_of(*EVERYTHING)[:count])
    restored = store.load()
    assert restored.overview() == state.overview()
    assert bytes_of(restored.open_rows()) == bytes_of(state.open_rows())
    assert store.save(restored) == {HEAD: store.segments[HEAD]}


def test_a_restored_session_goes_on_as_the_first_would() -> None:
    lines = lines_of(*EVERYTHING)
    tail = lines_of(
        *(result(), result("b"), nested(settled=True), say("y", turn=2), turn_end(2)),
        *(user("z", id_="m-1"), done("c", 5), user(), replacing(user(), 99, 100)),
        first=101,
    )
    for at in range(len(lines)):
        state, store = saved(lines[:at])
        _, expected = one_batch(state, [*lines[at:], *tail])
        _, changes = one_batch(store.load(), [*lines[at:], *tail])
        assert bytes_of(changes) == bytes_of(expected)


def test_a_fraction_between_two_places_survives() -> None:
    between = replacing(user(), 2, 3)
    state, store = saved(lines_of(user(), user(seq=5), between, between))
    assert [n.key for n in store.load().surface.nodes()] == [n.key for n in state.surface.nodes()]


# --- what a batch saves ---------------------------------------------------------------------------


def test_only_the_head_is_saved_when_nothing_changed() -> None:
    state, store = saved(lines_of(*EVERYTHING))
    assert list(store.save(state.fork())) == [HEAD]


def test_a_failed_batch_still_owes_what_it_changed() -> None:
    state, store = saved(lines_of(user()))
    dropped, _ = one_batch(state, lines_of(user(), first=1))
    snapshot.save(dropped)
    again, _ = one_batch(state, lines_of(user(), first=1))
    store.save(again)
    assert [n.seq for n in store.load().surface.nodes()] == [0, 1]


def settled(events: int) -> tuple[Session, Saved, int]:
    """A settled session in batches of fifty; and the most that one of its last batches saved."""
    state, store, most = Session(SESSION), Saved(), 0
    lines = turns(events)
    for start in range(0, len(lines), 50):
        state, _ = one_batch(state, lines[start : start + 50])
        changed = store.save(state)
        if start >= len(lines) - 1000:
            most = max(most, sum(len(value) for value in changed.values() if value))
    return state, store, most


def test_a_settled_session_of_1000_events_is_within_2_kib_beside_its_surface() -> None:
    state, store, _ = settled(1000)
    surface = sum(len(v) for k, v in state.segments.inline.items() if k[0] == "s")
    surface += sum(len(v) for k, v in store.segments.items() if k[:1] == "s")
    assert surface
    assert sum(map(len, store.segments.values())) - surface < 2048


def test_what_a_batch_saves_does_not_grow_with_the_session() -> None:
    _, _, short = settled(2000)
    _, _, long = settled(12000)
    assert long < 1.2 * short < 1.2 * 20_000


def test_open_text_is_saved_once() -> None:
    state, store = saved(lines_of(turn_start(), step_start()))
    sizes = []
    for n in range(40):
        state, _ = one_batch(state, lines_of(delta("x" * 8192), first=2 + n))
        changed = store.save(state)
        sizes.append(sum(len(value) for value in changed.values() if value))
    assert max(sizes[20:]) < 1.2 * max(sizes[:20])
    (row,) = store.load().open_rows()
    assert len(bytes(row.data.blocks)) > 40 * 8192  # type: ignore[union-attr]


@pytest.mark.parametrize("restarted", [False, True])
def test_sealed_text_is_gone_when_its_step_settled(restarted: bool) -> None:
    state, store = saved(lines_of(turn_start(), step_start(), delta("x" * 20_000)))
    (piece,) = (name for name in store.segments if name[0:1] == "x")
    if restarted:
        state = store.load()
    state, _ = one_batch(state, lines_of(say("x"), turn_end(), first=3))
    assert store.save(state)[piece] is None
    assert list(store.segments) == [HEAD]
    assert store.load().overview() == state.overview()


def test_large_segments_are_saved_apart_and_found_again() -> None:
    _, store = saved(lines_of(*(run(f"c{n}", args="x" * 999) for n in range(40))))
    assert len(store.segments) > 1
    assert len(store.segments[HEAD]) < 16_384
    restored = store.load()
    assert len(restored.commands.table) == 40
    restored, _ = one_batch(restored, lines_of(done("c0"), first=40))
    changed = store.save(restored)
    assert set(changed) == {HEAD, "k0"}
    assert store.load().commands.table[0].status == "success"


# --- what cannot be read --------------------------------------------------------------------------


def broken(segments: dict[str, bytes]) -> str:
    with pytest.raises(SnapshotError) as caught:
        snapshot.load(SESSION, segments)
    return str(caught.value)


@pytest.fixture(scope="module")
def segments() -> dict[str, bytes]:
    _, store = saved(lines_of(*EVERYTHING, *(run(f"c{n}", args="x" * 999) for n in range(20))))
    assert len(store.segments) > 1
    return store.segments


def test_a_newer_version_is_refused_with_a_remedy(segments: dict[str, bytes]) -> None:
    head: dict[str, Any] = json.loads(segments[HEAD]) | {"version": 99, "shapes": "of another kind"}
    message = broken(segments | {HEAD: json.dumps(head).encode()})
    assert "'s-1' is version 99" in message
    assert "run the newer program, or delete the state" in message


def test_a_field_added_later_does_no_harm(segments: dict[str, bytes]) -> None:
    head = json.loads(segments[HEAD]) | {"later": [1]}
    loaded = snapshot.load(SESSION, segments | {HEAD: json.dumps(head).encode()})
    assert loaded.overview() == snapshot.load(SESSION, segments).overview()


def test_a_missing_segment_is_noticed(segments: dict[str, bytes]) -> None:
    for name in segments:
        left = {other: value for other, value in segments.items() if other != name}
        assert "s-1" in broken(left)


def test_a_segment_too_many_is_noticed(segments: dict[str, bytes]) -> None:
    assert "where its head counts" in broken(segments | {"k999": b"[]"})


def test_a_torn_segment_is_noticed(segments: dict[str, bytes]) -> None:
    for name, value in segments.items():
        for cut in (0, 1, len(value) // 2, len(value) - 1):
            if name.startswith("x"):
                continue  # text by itself: any cut of it is text
            assert "cannot be read" in broken(segments | {name: value[:cut]})


def test_damaged_bytes_are_an_error_of_their_own_or_nothing(segments: dict[str, bytes]) -> None:
    """Never another exception; a byte inside of a text cannot be noticed."""
    random = Random(1)
    for _ in range(1500):
        name = random.choice(sorted(segments))
        value = bytearray(segments[name])
        value[random.randrange(len(value))] = random.choice(b'0"[]{},:\x00\xff9-nt')
        with suppress(SnapshotError):
            snapshot.load(SESSION, segments | {name: bytes(value)})


@pytest.mark.parametrize(
    ("letter", "value"),
    [("s", b'[[70,"u",0,"1/0"]]'), ("s", b'[[70,"z"]]'), ("s", b"[7]"), ("k", b"{}"), ("?", b"[]")],
)
def test_a_damaged_segment_is_noticed(letter: str, value: bytes) -> None:
    _, store = saved(lines_of(user()))
    head = json.loads(store.segments[HEAD]) | {"apart": 1}
    segments = {HEAD: json.dumps(head).encode(), f"{letter}4": value}
    assert "cannot be read" in broken(segments)


def test_a_count_that_is_wrong_allocates_nothing() -> None:
    _, store = saved(lines_of(user()))
    head = json.loads(store.segments[HEAD]) | {"digest_seqs": [[0, 10**15]]}
    assert "cannot be read" in broken({HEAD: json.dumps(head).encode()})


def test_a_session_that_never_saved_has_nothing_to_load() -> None:
    assert "cannot be read" in broken({})


def test_an_empty_session() -> None:
    store = Saved()
    store.save(Session(SESSION))
    restored = store.load()
    out = Out()
    restored.take(lines_of(user())[0], out)
    assert restored.overview().counts == {"user": 1}


def test_what_is_too_long_for_a_record_is_cut_and_joined() -> None:
    """streams.md §2: snapshots are split; nothing a log may hold makes a record too large."""
    text = "x" * (3 * PART)
    state, out = Session("s"), Out()
    for seq in range(3):
        line = {"type": "command/run", "seq": seq, "time": 0, "data": {"commandId": f"c{seq}"}}
        line["data"] |= {"name": "n", "args": text}  # type: ignore[operator]
        state.take(read_line(encode(line)), out)
    records = {name: value for name, value in save(state).items() if value is not None}
    assert max(map(len, records.values())) <= PART
    assert load("s", records).commands.table.rows == state.commands.table.rows
    for name in records:
        if name != HEAD:
            with pytest.raises(SnapshotError):
                load("s", {other: value for other, value in records.items() if other != name})
    assert names(state) == frozenset(records) - {HEAD}


def test_parts_that_are_not_needed_any_more_are_gone() -> None:
    long, parts = split({"k0": b"y" * (2 * PART + 1)}, Map())
    assert (sorted(long), parts) == (["k0", "k0/1", "k0/2"], Map({"k0": 2}))
    short, left = split({"k0": b"y"}, parts)
    assert (short, left) == ({"k0": b"y", "k0/1": None, "k0/2": None}, Map())
    gone, left = split({"k0": None}, parts)
    assert (gone, left) == ({"k0": None, "k0/1": None, "k0/2": None}, Map())
