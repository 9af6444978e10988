"""Faults around a real gateway: ``python -m tests.chaos.gateway_run [--only NAME,…]``.

A broker, a worker, sessions that are written steadily, and fifty clients. After each fault writing
goes on, then ends; then every client must hold what a fold of the written lines is, and so must one
that comes only then. Prints one table; progress goes to standard error. Exit code 1 if a client
ends different, ends at all, or is not current again in time.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pipeline.broker import BrokerError

from .gateway_faults import GATEWAY_FAULTS, GATEWAY_SHORT
from .gateway_rounds import Outcome, play
from .measures import table
from .stage import say, stage

COLUMNS = ("fault", "rounds", "clients", "different", "verdict", "current again s", "slow ones s")


def main(arguments: list[str] | None = None) -> int:
    args = _arguments(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = args.keep or Path(tempfile.mkdtemp(prefix="foldstream-gateway-"))
    outcomes: list[Outcome] = []
    began = time.monotonic()
    try:
        with stage(None, folder / "brokers" if args.keep else None, brokers=1) as there:
            for number in range(args.rounds):
                for name in args.only:
                    place, seed = folder / f"{name}-{number}", f"{args.seed}/{name}/{number}"
                    fault = GATEWAY_FAULTS[name]
                    outcomes.append(play(there, fault, seed, number, place, keep=bool(args.keep)))
                    say(line_of(outcomes[-1]))
    except BrokerError as error:
        say(f"chaos: {error}")
        return 1
    finally:
        if outcomes:
            sys.stdout.write(table([COLUMNS, *_rows(outcomes)], left=(0, 4)))
            load = " ".join(f"{one:.1f}" for one in os.getloadavg())
            seconds = time.monotonic() - began
            sys.stdout.write(
                f"{len(outcomes)} rounds in {seconds:.0f} s; {os.cpu_count()} cores, load {load}\n"
            )
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
    parts.append(f"{outcome.seconds:.0f} s, {outcome.lines} lines, {outcome.clients} clients")
    if outcome.current_s:
        parts.append(
            f"current in {' and '.join(map(str, outcome.current_s))} s ({outcome.last[:1]} last)"
        )
    if outcome.different:
        parts.append(f"{outcome.different} different")
    parts += [f"it said {said!r}" for said in outcome.said]
    return "; ".join([*parts, outcome.trouble] if outcome.trouble else parts)


def _rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """One per fault, in the order they were first made."""
    by_fault: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_fault.setdefault(outcome.fault, []).append(outcome)
    return [_row(name, rounds) for name, rounds in by_fault.items()]


def _row(name: str, rounds: Sequence[Outcome]) -> tuple[str, ...]:
    bad = sum(not outcome.ok for outcome in rounds)
    times = [outcome.current_s for outcome in rounds if len(outcome.current_s) > 1] or [[0, 0]]
    return (
        name,
        str(len(rounds)),
        str(max(outcome.clients for outcome in rounds)),
        str(sum(outcome.different for outcome in rounds)),
        f"{bad} of {len(rounds)} NOT OK" if bad else "ok",
        *(f"{max(each):.1f}" for each in zip(*times, strict=True)),
    )


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.gateway_run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="faults:\n  " + "\n  ".join(GATEWAY_FAULTS),
    )
    parser.add_argument("--rounds", type=int, default=1, help="of each fault (%(default)s)")
    parser.add_argument("--seed", default="1", help="of all that is chosen (%(default)s)")
    parser.add_argument("--only", type=_names, default=list(GATEWAY_FAULTS), help="with commas")
    parser.add_argument("--short", action="store_true", help=", ".join(GATEWAY_SHORT))
    parser.add_argument("--keep", type=Path, help="a folder for all logs, kept in any case")
    parser.add_argument("--json", type=Path, help="write every round's result there")
    args = parser.parse_args(arguments)
    if args.short:
        args.only, args.rounds = list(GATEWAY_SHORT), 1
    return args


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in GATEWAY_FAULTS:
            raise argparse.ArgumentTypeError(f"no fault is named {name}: see --help")
    return names


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of a client that were abandoned may not hold the process
