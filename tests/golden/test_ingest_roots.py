"""`ingest` of every golden session root puts exactly the accepted lines on the events topic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.ingest import Ingest
from pipeline.lines import MemoryLineSink
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader, create_topics
from pipeline.topics import Names
from schemas.directory import scan
from schemas.jsonl import open_log
from tests.golden.decoded import digest, events
from tests.golden.roots import MARKS, ROOTS, name_of, native

pytestmark = MARKS

NAMES = Names()


@pytest.mark.parametrize("root", ROOTS, ids=name_of)
def test_the_topic_holds_each_sessions_lines_and_nothing_else(root: Path) -> None:
    expected = json.loads((root / "expected.json").read_text("utf-8"))
    broker = MemoryBroker()
    create_topics(broker, NAMES, 3)
    topic = NAMES.of("events")
    Ingest(MemoryLineSink(broker, NAMES), topic, lambda session: None).once([root / "root"])
    sent: dict[str, list[bytes]] = {}
    for partition in range(3):
        for record in MemoryReader(broker).read(topic, partition):
            assert list(record.headers) == [("epoch", b"0")]
            sent.setdefault((record.key or b"").decode(), []).append(record.value or b"")

    files = {entry.session: entry.path for entry in scan(root / "root").sessions}
    assert sent.keys() <= files.keys()
    for session, path in files.items():
        lines = [line.raw for line in open_log(path).lines] if path.is_file() else []
        assert sent.get(session, []) == lines
        where = str(path.parent.relative_to(root / "root"))
        says = native(expected, expected["sessions"][where], path.name)
        if says["loads"]:
            rows = list(events(lines))
            assert (len(rows), digest(rows)) == (says["events"], says["sha256"])
