"""The list of sessions, and the command that `up` proposes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from operators.session import Session
from pipeline import cli
from pipeline.commands import brokers, listing
from pipeline.config import Config
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader, create_topics
from pipeline.topics import Names
from schemas.outbound import encode, key_of

NAMES = Names()


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemoryReader:
    """Three sessions on a broker in memory, which is the one that is named."""
    monkeypatch.chdir(tmp_path)
    broker = MemoryBroker()
    create_topics(broker, NAMES, 2)
    fields: list[tuple[str, dict[str, Any]]] = [
        ("old", {"last_time": 1_000, "title": "first"}),
        ("new", {"last_time": 5_000, "title": "say \x1b[2J", "state": "running", "next_seq": 7}),
        ("never", {}),
    ]
    for n, (session, more) in enumerate(fields):
        overview = msgspec.structs.replace(Session(session).overview(), **more)
        broker.append(NAMES.of("overview"), n % 2, key_of(overview), encode(overview))
    made = MemoryReader(broker)

    @contextmanager
    def named(_: Config, *__: str) -> Iterator[MemoryReader]:
        yield made

    monkeypatch.setattr(brokers, "reader", named)
    return made


@pytest.mark.usefixtures("reader")
def test_show_of_no_session_lists_them_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show"]) == 0
    ran = capsys.readouterr()
    assert [line.split()[0] for line in ran.out.splitlines()] == ["new", "old", "never"]
    first = ran.out.splitlines()[0]
    assert "1970-01-01 00:00:05" in first
    assert "7 events  say ␛[2J" in first
    assert "3 sessions on " in ran.err
    assert cli.main(["show", "--json"]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert documents[1] == {
        "session": "old", "state": "idle", "title": "first", "last_time": 1000, "events": 0
    }  # fmt: skip


def test_the_hint_names_the_newest_that_can_be_typed(reader: MemoryReader) -> None:
    assert listing.hint(reader, Config(), "b:1") == "foldstream show new --bootstrap b:1"
    Path("new").mkdir()  # now it would be taken for a folder
    assert listing.hint(reader, Config(), "b:1") == "foldstream show old --bootstrap b:1"
