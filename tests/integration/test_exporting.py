"""``export`` out of the topics of a real Kafka: the bytes of the file's export."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

from pipeline import published
from pipeline.documents import fold_lines
from pipeline.kafka.reader import KafkaReader
from pipeline.simulate import SHAPES, SimulatedSession, simulate
from pipeline.topics import Names
from tests.integration.test_show_follow import Topics
from tests.pipeline.test_cli import process

PATIENCE_S = 60.0


def exported(*argv: object) -> bytes:
    with process("export", *argv) as child:
        out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    return out


def until_folded(topics: Topics, session: SimulatedSession) -> None:
    last = json.loads(fold_lines(session.lines))["next_seq"]
    deadline = time.monotonic() + PATIENCE_S
    with closing(KafkaReader(topics.cluster)) as reader:
        while time.monotonic() < deadline:
            found = published.session(reader, topics.names, session.id)
            if found is not None and found.overview.next_seq == last:
                return
            time.sleep(0.1)
    raise AssertionError("it is not folded")


def test_the_topics_are_exported_as_the_file(kafka: str, topic_prefix: str, tmp_path: Path) -> None:
    session = simulate(12, events=120, shape=SHAPES[-1])
    log = tmp_path / "session.jsonl"
    log.write_bytes(b"".join(line + b"\n" for line in session.lines))
    names = Names(topic_prefix, topic_prefix + "app")
    at = ("--bootstrap", kafka, "--prefix", topic_prefix)
    with closing(Topics(kafka, names)) as topics:
        topics.write(session.id, session.lines)
        until_folded(topics, session)
        for format_ in ("md", "html", "jsonl"):
            of_file = exported(log, "--format", format_)
            assert exported(session.id, "--format", format_, *at) == of_file
    with process("export", "nobody", *at) as child:
        _, err = child.communicate(timeout=120)
    assert child.returncode == 1
    assert b"'nobody' is not on the topics" in err
