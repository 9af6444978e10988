"""What following costs: a pass over thousands of sessions of which none, one, a long or a new one
changed, against asking the system once for each log.

A pass is made every second, so 10 ms are a hundredth of a core.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from pipeline.ingest import Ingest
from pipeline.lines import MemoryLineSink
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import create_topics
from pipeline.topics import Names
from pipeline.watching import Watch
from schemas.jsonl import open_log

from .measure import Figure, Options, figures, interleaved

SESSIONS = 5_000
LONG = 200_000  #: events of the long log
NAMES = Names()
HEADER = (
    b'{"type":"session","version":4,"id":"%s","createdAt":7,"isSeeded":false,"delegationDepth":0}'
)
ROW = b'{"type":"todo/write","seq":%d,"time":1,"data":{"text":"%s"}}\n'


def run(options: Options) -> Iterable[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        following = _Following(Path(folder), options.scaled(SESSIONS), options.scaled(LONG))
        sides = {
            "a stat of each log": following.stats,
            "a pass, nothing changed": following.idle,
            "a pass, one log grew": following.grown,
            "a pass, a long log grew": following.longer,
            "a pass, a session came": following.come,
            "(the long log, read)": following.read,
        }
        aims = {"a pass, one log grew": 4.0, "a pass, a long log grew": 4.0}
        yield from figures(interleaved(sides, options.rounds), 1, "a stat of each log", aims)


class _Following:
    """An ingest that knows all sessions of a root."""

    def __init__(self, root: Path, sessions: int, long: int) -> None:
        self._root = root
        self._logs = [self._new(at) for at in range(sessions)]
        self._long = self._new(sessions)
        with self._long.open("ab") as file:
            file.writelines(ROW % (seq, b"x" * 200) for seq in range(10, long))
        self._seqs = {self._long: long}
        old = time.time() - 3600
        for path, _, _ in os.walk(root):  # what is old is known not to change unseen
            os.utime(path, (old, old))
        broker = MemoryBroker()
        create_topics(broker, NAMES)
        sink = MemoryLineSink(broker, NAMES)
        self._ingest = Ingest(sink, NAMES.of("events"), lambda _: None)
        self._watch = Watch([root])
        self._pass()
        self._watch.look()

    def _new(self, at: int) -> Path:
        folder = self._root / f"--p{at % 20}--" / f"session-{at}"
        folder.mkdir(parents=True)
        path = folder / "session.v4.jsonl"
        rows = b"".join(ROW % (seq, b"x" * 200) for seq in range(10))
        path.write_bytes(HEADER % f"session-{at}".encode() + b"\n" + rows)
        return path

    def _pass(self) -> None:
        """As `Ingest.follow` makes one."""
        seen = self._watch.look()
        if seen.others or (seen.grown and not self._ingest._more(seen.grown)):
            self._ingest.once([self._root])

    def _grow(self, path: Path) -> None:
        seq = self._seqs.get(path, 10)
        self._seqs[path] = seq + 1
        with path.open("ab") as file:
            file.write(ROW % (seq, b"more"))
        before = self._ingest.counts.sent
        self._pass()
        assert self._ingest.counts.sent == before + 1

    def stats(self) -> None:
        for path in self._logs:
            path.stat()

    def idle(self) -> None:
        self._pass()

    def grown(self) -> None:
        self._grow(self._logs[7])

    def come(self) -> None:
        self._logs.append(self._new(len(self._logs) + 1_000_000))
        before = self._ingest.counts.sent
        self._pass()
        assert self._ingest.counts.sent == before + 11

    def longer(self) -> None:
        self._grow(self._long)

    def read(self) -> None:
        for _ in open_log(self._long).lines:
            pass
