"""``show --follow`` over the topics of a real Kafka, while a worker folds what comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from pipeline import published
from pipeline.documents import fold_lines
from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.kafka.lines import KafkaLineSink
from pipeline.kafka.reader import KafkaReader
from pipeline.ports import OutRecord
from pipeline.simulate import SHAPES, features_of, simulate
from pipeline.topics import Names, specs
from pipeline.wiring import WorkerSettings, build
from tests.pipeline.commands.test_showing import ended, until
from tests.pipeline.test_logtail import user

ROOT = Path(__file__).parents[2]


class Topics:
    """The topics of a cluster, a worker that folds what is sent to them, and ``show`` over them."""

    def __init__(self, bootstrap: str, names: Names) -> None:
        self.names = names
        self.cluster = Cluster(bootstrap)
        with KafkaTopics(self.cluster) as topics:
            topics.create(specs(names, 2))
        self._stop = threading.Event()
        settings = WorkerSettings(
            broker=bootstrap,
            instance="1",
            prefix=names.prefix,
            application=names.application,
            stop=self._stop,
        )
        self._worker = threading.Thread(target=build(settings).run)
        self._worker.start()

    def close(self) -> None:
        self._stop.set()
        self._worker.join()

    def write(self, session: str, lines: Iterable[bytes], epoch: int = 0) -> None:
        with closing(KafkaLineSink(self.cluster, self.names)) as sink:
            key = session.encode()
            for line in lines:
                headers = [("epoch", b"%d" % epoch)]
                sink.send(OutRecord("events", sink.partition(key), key, line, headers))
            sink.flush()

    def show(self, *argv: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pipeline.cli", "show", *argv]
        command += ["--bootstrap", self.cluster.bootstrap, "--prefix", self.names.prefix]
        environ = {**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT)}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environ)

    def published(self, session: str) -> bytes:
        """When the session is on the topics: where its first visible row stands."""
        deadline = time.monotonic() + 60
        with closing(KafkaReader(self.cluster)) as reader:
            while time.monotonic() < deadline:
                found = published.session(reader, self.names, session)
                rows = [row for row in (found.rows if found else ()) if row.kind == "user"]
                if rows:
                    return b"#%d " % rows[0].anchor_seq
                time.sleep(0.1)
        raise AssertionError("nothing was folded")

    def shown(self, *argv: str) -> bytes:
        with self.show(*argv) as child:
            out, err = child.communicate(timeout=60)
        assert child.returncode == 0, err
        return out


def test_what_was_followed_is_what_stands_there_at_the_end(kafka: str, topic_prefix: str) -> None:
    shape = SHAPES[0]
    made = simulate(11, events=90, shape=shape, features=features_of(shape) - {"open-end"})
    seq = json.loads(fold_lines(made.lines))["next_seq"]
    lines = [*made.lines, user(seq)]  # a message after all that was settled: it is not held up
    with closing(Topics(kafka, Names(topic_prefix, topic_prefix + "app"))) as topics:
        topics.write(made.id, lines[:30])
        known = topics.published(made.id)
        with topics.show(made.id, "--follow") as child:
            got = until(child.stdout, known)
            for at in range(30, len(lines), 20):
                topics.write(made.id, lines[at : at + 20])
            got += until(child.stdout, b"#%d " % seq)
            rest, err = ended(child)
        assert b"stale" not in err
        assert got + rest == topics.shown(made.id)
