"""Chaos on a real Apache Kafka of three brokers: ``python -m tests.chaos.run [--only NAME,…]``.

Every fault, some rounds of each; after each round ``foldstream verify`` and an independent count of
what was lost and duplicated. Prints one table; progress goes to standard error. Exit code 1 if
anything is lost, doubled, not ok or did not recover; then the logs of those rounds are kept.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from pipeline.broker import BrokerError

from .faults import FAULTS, SHORT
from .measures import quantile, table
from .rounds import Outcome, play
from .stage import say, stage

ROUNDS = 3
COLUMNS = ("fault", "rounds", "faults", "lost", "duplicated", "verify", "p50 s", "max s")


def main(arguments: list[str] | None = None) -> int:
    args = _arguments(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = args.keep or Path(tempfile.mkdtemp(prefix="foldstream-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    began = time.monotonic()
    try:
        with stage(args.port, folder / "brokers" if args.keep else None) as there:
            for number in range(args.rounds):
                for name in args.only:
                    place = folder / f"{name}-{number}"
                    outcomes.append(
                        play(
                            there,
                            FAULTS[name],
                            f"{args.seed}/{name}/{number}",
                            number,
                            place,
                            keep=bool(args.keep),
                        )
                    )
                    say(line_of(outcomes[-1]))
    except BrokerError as error:
        say(f"chaos: {error}")
        return 1
    finally:
        if outcomes:
            sys.stdout.write(table([COLUMNS, *_rows(outcomes)], left=(0, 5)))
            seconds = time.monotonic() - began
            load = " ".join(f"{one:.1f}" for one in os.getloadavg())
            on = f"{os.cpu_count()} cores, load {load}"
            sys.stdout.write(f"{len(outcomes)} rounds in {seconds:.0f} s; {on}\n")
        if args.json is not None:
            args.json.write_bytes(msgspec.json.encode({"seed": args.seed, "rounds": outcomes}))
    wrong = [outcome for outcome in outcomes if not outcome.ok]
    for outcome in wrong:
        sys.stdout.write(f"not ok: {line_of(outcome)}; see {outcome.kept}\n")
    if not wrong and not args.keep:
        folder.rmdir()
    return int(bool(wrong))


def line_of(outcome: Outcome) -> str:
    """A round, in one line."""
    parts = [f"{outcome.fault} {outcome.round + 1}: {'ok' if outcome.ok else 'NOT OK'}"]
    parts.append(f"{outcome.seconds:.0f} s, {outcome.fed} lines")
    if outcome.recovery:
        parts.append("recovered in " + " ".join(f"{s:.1f}" for s in outcome.recovery) + " s")
    if outcome.lost or outcome.duplicated:
        parts.append(f"lost {outcome.lost}, duplicated {outcome.duplicated}")
    if outcome.verify != "ok":
        parts.append(f"verify: {outcome.verify}")
    parts += [f"stopped {stop}" for stop in outcome.stops]
    return "; ".join([*parts, outcome.trouble] if outcome.trouble else parts)


def _rows(outcomes: Iterable[Outcome]) -> list[tuple[str, ...]]:
    """One per fault, in the order they were first made."""
    by_fault: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_fault.setdefault(outcome.fault, []).append(outcome)
    return [_row(name, rounds) for name, rounds in by_fault.items()]


def _row(name: str, rounds: Sequence[Outcome]) -> tuple[str, ...]:
    recovery = [seconds for outcome in rounds for seconds in outcome.recovery]
    bad = sum(not outcome.ok for outcome in rounds)
    return (
        name,
        str(len(rounds)),
        str(sum(outcome.faults for outcome in rounds)),
        str(sum(outcome.lost for outcome in rounds)),
        str(sum(outcome.duplicated for outcome in rounds)),
        f"{bad} of {len(rounds)} NOT OK" if bad else "ok",
        f"{quantile(recovery, 0.5):.1f}" if recovery else "-",
        f"{max(recovery):.1f}" if recovery else "-",
    )


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="faults:\n  " + "\n  ".join(FAULTS),
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each fault (%(default)s)")
    parser.add_argument("--seed", default="1", help="of all that is chosen (%(default)s)")
    parser.add_argument("--only", type=_names, default=list(FAULTS), help="faults, with commas")
    parser.add_argument("--short", action="store_true", help=f"one round of {', '.join(SHORT)}")
    parser.add_argument("--port", type=int, help="the brokers' first one (any that are free)")
    parser.add_argument("--keep", type=Path, help="a folder for all logs, kept in any case")
    parser.add_argument("--json", type=Path, help="write every round's result there")
    args = parser.parse_args(arguments)
    if args.short:
        args.only, args.rounds = list(SHORT), 1
    return args


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in FAULTS:
            raise argparse.ArgumentTypeError(f"no fault is named {name}: see --help")
    return names


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of a client that were abandoned may not hold the process
