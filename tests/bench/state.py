"""Bytes that are kept of a settled session of 1 000 events, beside its surface, its commands and
its compactions with their summaries (aim: 2 KiB); and the memory of decoded sessions, beside what
`state.weight` says of it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable

from operators.session import Out, Session
from pipeline.simulate import SHAPES, features_of, simulate
from pipeline.state import weight
from schemas import snapshot
from schemas.inbound import read_line

from . import corpus
from .measure import Figure, Options

AIM = 2048
BESIDE = ("s", "k", "c", "m")  #: segments of surface, commands, compactions, summaries


def run(options: Options) -> Iterable[Figure]:
    events = options.scaled(1_000)
    steady: list[bytes] = []
    for period in corpus.periods():
        steady += period
        if len(steady) >= events:
            break
    yield _kept("turns and compactions", steady)
    for shape in SHAPES:
        settling = features_of(shape) - {"open-end"}
        made = simulate(3, events=events, shape=shape, features=settling)
        yield _kept(f"simulated {shape}", made.lines)
    for length in (10, 40, 120, 250, 1_000):
        yield _decoded(length, options.scaled(400 if length < 1_000 else 40))


def _decoded(length: int, count: int) -> Figure:
    """What ``count`` decoded sessions add to the process, each; the ratio is to their weight."""
    snapshots = []
    for seed in range(count):
        made = simulate(seed, events=length, shape=SHAPES[seed % len(SHAPES)])
        state = Session(made.id)
        for line in made.lines:
            state.take(read_line(line), Out())
        saved = snapshot.save(state)
        snapshots.append({name: value for name, value in saved.items() if value is not None})
    for encoded in snapshots:  # what is made once, and room that is used again
        snapshot.load("s", encoded)
    gc.collect()
    tracemalloc.start()
    kept = [snapshot.load("s", encoded) for encoded in snapshots]
    used = tracemalloc.get_traced_memory()[0] / len(kept)
    tracemalloc.stop()
    encoded_bytes = sum(len(v) for encoded in snapshots for v in encoded.values()) // count
    weighed = weight(encoded_bytes)
    what = f"decoded: {length} events, {encoded_bytes} bytes of snapshot"
    return Figure(what, "bytes", used, used, f"weight {weighed}", used / weighed, used / weighed)


def _kept(what: str, lines: list[bytes]) -> Figure:
    state, kept = Session("settled"), dict[str, bytes]()
    for start in range(0, len(lines), corpus.BATCH):
        state, out = state.fork(), Out()
        for line in lines[start : start + corpus.BATCH]:
            state.take(read_line(line), out)
        for name, value in snapshot.save(state).items():
            if value is None:
                kept.pop(name, None)
            else:
                kept[name] = value
    inline = state.segments.inline
    beside = {name: len(value) for name, value in kept.items() if name.startswith(BESIDE)}
    beside |= {name: len(inline[name]) for name in inline if name.startswith(BESIDE)}
    rest = sum(map(len, kept.values())) - sum(beside.values())
    what = f"{what}: {state.next_seq} events, {sum(beside.values())} bytes beside"
    return Figure(what, "bytes", rest, rest, f"{AIM} bytes", rest / AIM, rest / AIM, 1.0)
