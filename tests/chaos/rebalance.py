"""How long a partition that stays where it is pauses while others move:
``python -m tests.chaos.rebalance``.

Two workers fold a steady feed; a third joins, stays for a while and leaves, again and again. What
counts is the time from one commit of a partition to the next by the same process, where no other
process took part in between: at rest, and while partitions move (aim: p99 < 250 ms).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct

from pipeline.topics import Names

from . import journal
from .checks import catch_up, verify
from .crew import Crew, Place, Worker
from .feeder import Feeder, stream
from .journal import Told
from .measures import quantile, table
from .stage import PARTITIONS, Stage, say, stage

AIM_S = 0.25
SETTLED_S = 2.0  #: after the last partition has moved
REST_S = 10.0
READY_S = 60.0
COLUMNS = ("", "gaps", "p50 ms", "p99 ms", "max ms")


class Span(Struct, frozen=True):
    """A time in which a worker came (or went): what moved, and every gap between two commits of
    each partition that stayed."""

    since: float
    until: float
    moved: tuple[int, ...]
    gaps: list[float]


def main(arguments: list[str] | None = None) -> int:
    """1 if the proof fails; the aim is an aim, and a busy machine misses it."""
    args = _arguments(arguments)
    folder = Path(tempfile.mkdtemp(prefix="foldstream-rebalance-"))
    with stage(args.port, None, args.brokers) as there:
        names = Names("rebalance.", "rebalance")
        there.create(names)
        place = Place(bootstrap=there.bootstrap, names=names, folder=folder, state=folder / "state")
        lines = stream(Random(args.seed), PARTITIONS)
        feeder = Feeder(there.bootstrap, names.of("events"), lines, args.rate)
        with Crew(place) as crew:
            try:
                rest, spans = _move(there, crew, feeder, args.moves)
            finally:
                feeder.stop()
            catch_up(there, names, folder, feeder.ends)
            crew.stop()
        verdict = verify(there.bootstrap, names, folder)
    _report(rest, spans, args, verdict)
    if verdict == "ok":
        shutil.rmtree(folder, ignore_errors=True)
        return 0
    say(f"logs are in {folder}")
    return 1


def _move(there: Stage, crew: Crew, feeder: Feeder, moves: int) -> tuple[Span, list[Span]]:
    folder = crew.place.folder
    (folder / "state").mkdir()
    workers = [crew.start("w1"), crew.start("w2")]
    feeder.start()
    if not Crew.until(lambda: _all_commit(folder, workers), READY_S):
        raise TimeoutError("two workers do not share all partitions")
    time.sleep(SETTLED_S)
    began = time.monotonic()
    time.sleep(REST_S)
    windows = [(began, time.monotonic())]
    for number in range(moves):
        windows += _come_and_go(there, crew, f"w{3 + number}", workers)
        say(f"move {number + 1} of {moves}")
    rest, *spans = [_span(journal.read(folder), *window) for window in windows]
    return rest, spans


def _come_and_go(
    there: Stage, crew: Crew, guest: str, hosts: Sequence[Worker]
) -> list[tuple[float, float]]:
    """The times of both."""
    folder = crew.place.folder
    return [
        _until_moved(lambda: crew.start(guest), lambda: _has_some(folder, guest)),
        _until_moved(lambda: _leave(there, crew, guest), lambda: _all_commit(folder, hosts)),
    ]


def _until_moved(change: Callable[[], object], moved: Callable[[], bool]) -> tuple[float, float]:
    """When it was changed, and when all that follows from that was over."""
    began = time.monotonic()
    change()
    if not Crew.until(moved, READY_S):
        raise TimeoutError(f"nothing moved within {READY_S:.0f} s")
    time.sleep(SETTLED_S)
    return began, time.monotonic()


def _leave(there: Stage, crew: Crew, label: str) -> None:
    guest = crew.worker(label)
    crew.retire(guest)
    Crew.until(lambda: guest.pid is None, READY_S)
    there.remove(crew.place.names.application, guest.instance)  # not when its session has run out


def _has_some(folder: Path, label: str) -> bool:
    return bool(journal.held_by(journal.read(folder), label, time.monotonic()))


def _all_commit(folder: Path, workers: Sequence[Worker]) -> bool:
    told, now = journal.read(folder), time.monotonic()
    held = [journal.held_by(told, worker.label, now) for worker in workers]
    return all(held) and set().union(*held) == set(range(PARTITIONS))


def _span(told: Sequence[Told], since: float, until: float) -> Span:
    """A gap that began before the span or ended after it is whole: what is looked for are long
    ones."""
    by_partition = journal.gaps(told, since, until)
    moved = journal.moved(told, since, until)
    stayed = [gap for at, some in by_partition.items() if at not in moved for gap in some]
    return Span(since, until, tuple(sorted(moved)), stayed)


def _report(rest: Span, spans: list[Span], args: argparse.Namespace, verdict: str) -> None:
    moving = [span for span in spans if span.moved]
    gaps = [gap for span in moving for gap in span.gaps]
    longest = [max(span.gaps) for span in moving if span.gaps]
    rows = [COLUMNS, _row("commit to commit, at rest", rest.gaps)]
    rows.append(_row("the same, partitions that stay while others move", gaps))
    rows.append(_row("the longest of each move", longest))
    sys.stdout.write(table(rows))
    met = bool(gaps) and quantile(gaps, 0.99) < AIM_S
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    sys.stdout.write(
        f"{len(moving)} of {len(spans)} times something moved, "
        f"{sum(len(span.moved) for span in moving)} partitions; "
        f"{args.brokers} broker(s), {args.rate:g} records/s, {os.cpu_count()} cores, load {load}\n"
        f"aim p99 < {AIM_S * 1000:.0f} ms: {'met' if met else 'missed'}; verify: {verdict}\n"
    )
    if args.json is not None:
        document = {"rest": rest, "spans": spans, "verify": verdict}
        args.json.write_bytes(msgspec.json.encode(document))


def _row(what: str, gaps: Sequence[float]) -> tuple[str, ...]:
    if not gaps:
        return what, "0", "-", "-", "-"
    figures = (quantile(gaps, 0.5), quantile(gaps, 0.99), max(gaps))
    return what, str(len(gaps)), *(f"{1000 * figure:.0f}" for figure in figures)


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.rebalance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--moves", type=int, default=10, help="times a third worker comes and goes")
    parser.add_argument("--rate", type=float, default=300.0, help="records a second (%(default)s)")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--port", type=int, help="the brokers' first one (any that are free)")
    parser.add_argument("--seed", default="1", help="of the sessions (%(default)s)")
    parser.add_argument("--json", type=Path, help="write every gap there")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
