"""verify as a command: exit codes, the lines for a person, the document for a program."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from pipeline.commands import brokers, checking, doctor
from pipeline.commands.terminal import Terminal
from pipeline.config import Config
from pipeline.doctor import Finding
from pipeline.memory_ends import MemoryReader
from pipeline.ports import Reader
from pipeline.simulate import fleet
from pipeline.verify import verify
from tests.pipeline.world import World, interleaved

LINES = interleaved(fleet(31, 2, events=20))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    world.feed(LINES)
    world.run()

    @contextmanager
    def reader(_: Config, *__: str) -> Iterator[Reader]:
        yield MemoryReader(world.broker)

    monkeypatch.setattr(brokers, "reader", reader)
    return world


def prove(**other: object) -> int:
    return checking.prove(Config(**other), argparse.Namespace(), Terminal())  # type: ignore[arg-type]


def damage(world: World) -> int:
    record = world.read("surface")[0]
    return world.broker.append(record.topic, record.partition, record.key, record.value)


def test_right_topics_exit_0_with_counts_and_digests(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prove() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("verify: ok (2 sessions")
    digests = [line.split()[-1] for line in lines if " digest " in line]
    assert [len(digest) for digest in digests] == [32] * 5


def test_a_difference_exits_1_and_names_it(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    offset = damage(world)
    assert prove() == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert f"at offset {offset}: session" in first
    assert last.startswith("verify: FAILED: 1 differ, first sessions.surface[")


def test_what_was_not_decided_exits_3(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = MemoryReader.committed
    monkeypatch.setattr(
        MemoryReader,
        "committed",
        lambda *asked: {at: offset - 1 for at, offset in real(*asked).items()},
    )
    verdict = msgspec.structs.replace(
        verify(MemoryReader(world.broker), world.names, rounds=0), behind=0
    )
    assert verdict.undecided_count > 0
    monkeypatch.setattr(checking, "verify", lambda *_, **__: verdict)
    assert prove() == 3
    assert "undecided within --rounds" in capsys.readouterr().out


def test_the_document_has_stable_names(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    damage(world)
    assert prove(json=True) == 1
    verdict = json.loads(capsys.readouterr().out)
    assert list(verdict) == [
        *("ok", "sessions", "events", "surface", "rows", "dead_letters", "behind", "differing"),
        *("differences", "undecided_count", "undecided", "unprovable_count", "unprovable"),
        "topics",
    ]
    assert list(verdict["differences"][0]) == [
        *("topic", "partition", "offset", "session", "key", "seq", "what", "field", "found"),
        "expected",
    ]
    assert list(verdict["topics"]["surface"]) == ["topic", "count", "digest"]


@pytest.mark.parametrize(("level", "code"), [("ok", 0), ("warn", 0), ("fail", 1)])
def test_the_doctor_exits_1_if_anything_fails(
    level: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = msgspec.convert(
        {"level": level, "check": "lag", "where": "t", "what": "w", "remedy": "r"}, Finding
    )
    monkeypatch.setattr(doctor, "_findings", lambda _: iter([finding]))
    assert doctor.diagnose(Config(), argparse.Namespace(), Terminal()) == code
    shown = capsys.readouterr()
    assert shown.out == f"{level:<4} lag           t: w; r\n"
    assert f"1 {level}" in shown.err
    doctor.diagnose(Config(json=True), argparse.Namespace(), Terminal())
    assert json.loads(capsys.readouterr().out)["check"] == "lag"
