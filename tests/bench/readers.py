"""What all readers together add to decode and fold, and to the state of an idle session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from unittest.mock import patch

from operators.session import Out, Session
from pipeline.simulate import FEATURES, SHAPES, simulate
from schemas.inbound import read_line
from schemas.snapshot_readers import encode_readers

from . import corpus
from .measure import Figure, Options, figures, interleaved

LOGS = 30  #: whose readers are weighed
EVENTS = 1_000


def run(options: Options) -> Iterable[Figure]:
    logs = corpus.mixed(options)
    without, count = "decode + fold", sum(len(log.lines) for log in logs)
    seconds = interleaved(
        {
            without: unread(lambda: corpus.fold(logs)),
            f"{without} + readers": lambda: corpus.fold(logs),
        },
        options.rounds,
    )
    yield from figures(seconds, count, without, {f"{without} + readers": 1.4})
    sizes = sorted(kept(seed) for seed in range(1, options.scaled(LOGS) + 1))
    yield Figure("readers of an idle session", "bytes", sizes[0], sizes[len(sizes) // 2])
    yield Figure("the largest", "bytes", sizes[-1], sizes[-1], at_most=1024)


def unread(call: Callable[[], None]) -> Callable[[], None]:
    """The call, with no reader looking at any event."""

    def blind() -> None:
        with (
            patch("operators.intake.READ", frozenset()),
            patch("operators.nodes.price", lambda _: 0),
        ):
            call()

    return blind


def kept(seed: int) -> int:
    """Bytes of a session's readers in its snapshot, without its todos and living contexts, which
    are as long as the log makes them."""
    tame = FEATURES - {"hostile"}
    made = simulate(seed, events=EVENTS, shape=SHAPES[seed % len(SHAPES)], features=tame)
    session = Session(made.id)
    out = Out(partials=False)
    for line in made.lines:
        session.take(read_line(line), out)
    small = session.readers.small
    todos = small["todos"].saved()
    return len(encode_readers(session.readers)) - (0 if todos is None else len(todos.todos))
