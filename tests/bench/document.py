"""``foldstream fold --json`` of a large log, printing included, against ``json.loads`` of its lines
(aim: as fast)."""

from __future__ import annotations

import gc
import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path

from pipeline.cli import main
from pipeline.simulate import simulate

from .measure import Figure, Options, figures, interleaved

SHAPES = ("v0", "v4")


def run(options: Options) -> Iterable[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for path in _logs(options, Path(folder)):
            yield from _of_file(path, options)


def _logs(options: Options, folder: Path) -> list[Path]:
    if options.logs is not None:
        largest = sorted(options.logs.rglob("*.jsonl"), key=lambda path: path.stat().st_size)
        return largest[-2:]
    paths = []
    for shape in SHAPES:
        paths.append(folder / f"{shape}.jsonl")
        paths[-1].write_bytes(simulate(11, events=options.scaled(20_000), shape=shape).data)
    return paths


def _of_file(path: Path, options: Options) -> list[Figure]:
    lines = path.read_bytes().count(b"\n")
    base, ours = f"json.loads of {path.stem}", f"fold --json of {path.stem}"

    def loads() -> None:
        with path.open("rb") as file:
            for line in file:
                json.loads(line)

    def fold() -> None:
        try:
            with Path(os.devnull).open("w") as out, redirect_stdout(out):
                main(["fold", "--json", str(path)])
        finally:
            gc.enable()  # the command lets its whole process do without

    seconds = interleaved({base: loads, ours: fold}, options.rounds)
    return figures(seconds, lines, base, {ours: 1.0})
