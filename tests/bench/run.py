"""What things cost here, as ratios measured in one run: ``python -m tests.bench.run [BENCH …]``.

Prints a table, or with ``--json`` one JSON document; progress goes to standard error. Exit code 0
whatever the figures are: the aims are aims, and a busy machine misses some.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

import msgspec

from .measure import Figure, Options, machine

BENCHES = {
    "folding": "decode + fold of mixed logs against json.loads",
    "document": "fold --json of a large log against json.loads",
    "pipeline": "in-memory pipeline, bytes to Avro bytes, against decode + fold",
    "small-batches": "one, two, ten events of each session to a batch, against json.loads",
    "kafka": "a worker on Kafka against a bare transactional loop",
    "verify": "verify of a million events on Kafka against the fold alone; its memory; damage",
    "latency": "event sent to outputs visible, at a steady rate, and where the time goes",
    "length": "cost of an event by the length of its session",
    "state": "bytes kept of a settled session",
    "readers": "what all readers add to decode + fold, and to an idle session's state",
    "ingest": "a pass over thousands of followed sessions against a stat of each log",
    "gateway": "live frames to 400 clients on 100 sessions, without sockets",
    "gateway-sockets": "the same over sockets, for --seconds; aims are of 120",
    "gateway-pages": "a page of a session of 200 000 events beside one of 2 000",
    "encoding": "Avro writers against fastavro",
    "restore": "a worker takes over 1 000 000 sessions from Kafka, cold and with its local store",
}

#: Run when they are named, as they take minutes.
LONG = frozenset({"verify", "gateway-sockets", "gateway-pages"})


def main(arguments: list[str] | None = None) -> int:
    options, names, as_json = _options(arguments)
    found: dict[str, list[Figure]] = {}
    for name in names:
        sys.stderr.write(f"{name}: {BENCHES[name]} …\n")
        found[name] = list(import_module(f"{__package__}.{name.replace('-', '_')}").run(options))
        if not as_json:
            sys.stdout.write(table(name, found[name]))
            sys.stdout.flush()
    if as_json:
        document = {"machine": machine(), "rounds": options.rounds, "benches": found}
        sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")
    else:
        noted = ", ".join(f"{key} {value}" for key, value in machine().items())
        sys.stdout.write(f"\nmeasured on: {noted}\n")
    return 0


def table(name: str, found: list[Figure]) -> str:
    rows = [("", "unit", "min", "median", "ratio", "median", "aim", "to")]
    for figure in found:
        aim = "" if figure.at_most is None else f"<= {figure.at_most:g}"
        if figure.met is not None:
            aim += "" if figure.met else " !"
        least, middle = f"{figure.least:.4g}", f"{figure.middle:.4g}"
        ratio, ratio_middle = _ratio(figure.ratio), _ratio(figure.ratio_middle)
        against = figure.against or ""
        rows.append((figure.what, figure.unit, least, middle, ratio, ratio_middle, aim, against))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.rjust(width) if 2 <= column <= 5 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([f"\n{name}: {BENCHES[name]}", *lines, ""])


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _options(arguments: list[str] | None) -> tuple[Options, list[str], bool]:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.run", description=__doc__)
    known = "; ".join(f"{name}: {what}" for name, what in BENCHES.items())
    parser.add_argument(
        "bench", nargs="*", help=f"all but {', '.join(sorted(LONG))} by default. {known}"
    )
    parser.add_argument("--rounds", type=int, default=7, help="repetitions of each side (7)")
    parser.add_argument("--size", type=float, default=1.0, help="of the input, 1 as the aims mean")
    parser.add_argument("--logs", type=Path, help="a folder of *.jsonl logs instead of simulated")
    parser.add_argument("--bootstrap", help="HOST:PORT of a Kafka broker instead of a local one")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="local ones (1)")
    parser.add_argument("--rate", type=int, default=1_000, help="events/s of latency (1000)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of latency and gateway-sockets (60)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.bench if name not in BENCHES]
    if unknown:
        parser.error(f"no bench is named {', '.join(unknown)}; there are: {', '.join(BENCHES)}")
    options = Options(
        *(given.rounds, given.size, given.logs, given.bootstrap),
        *(given.brokers, given.rate, given.seconds),
    )
    return options, given.bench or [name for name in BENCHES if name not in LONG], given.json


if __name__ == "__main__":
    sys.exit(main())
