"""The count of a round, made without the product's reader, graph or proof: what a plain consumer of
committed records finds on ``surface``, ``overview`` and ``deadletter``, against a fold of the lines
as they were fed, session by session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from msgspec import Struct

from operators.session import fold
from pipeline.topics import Names
from schemas.inbound import read_line
from schemas.outbound import encode

READ_S = 60.0

Place = tuple[int, int]
"""Epoch and seq of a surface record."""


class Audit(Struct, frozen=True):
    """``lost`` and ``duplicated``: surface records that should stand there and do not, or stand
    there more often than they should; besides, an overview that is not the last of a fresh fold
    counts as one lost. ``first``: the first difference, for a person."""

    lost: int = 0
    duplicated: int = 0
    disordered: int = 0
    dead_letters: int = 0
    surface: int = 0
    first: str = ""

    @property
    def clean(self) -> bool:
        return not (self.lost or self.duplicated or self.disordered or self.dead_letters)


class Found(Struct, frozen=True):
    """What stands on the topics: per session the surface's places in order; the last overviews."""

    surface: Mapping[str, list[Place]]
    overviews: Mapping[str, bytes | None]
    dead_letters: int


def audit(bootstrap: str, names: Names, fed: Mapping[str, Sequence[bytes]]) -> Audit:
    return compare(fed, found(bootstrap, names))


def compare(fed: Mapping[str, Sequence[bytes]], there: Found) -> Audit:
    lost = duplicated = disordered = surface = 0
    firsts = []
    for session, lines in fed.items():
        expected = fold(map(read_line, lines), session)
        wanted = [(change.epoch, change.seq) for change in expected.surface]
        has = there.surface.get(session, [])
        surface += len(has)
        missing, more = Counter(wanted) - Counter(has), Counter(has) - Counter(wanted)
        lost += missing.total()
        duplicated += more.total()
        if not missing and not more and has != wanted:
            disordered += 1
            firsts.append(f"{session}: surface out of order")
        firsts += [f"{session}: no surface record {at}" for at in list(missing)[:1]]
        firsts += [f"{session}: surface record {at} once too often" for at in list(more)[:1]]
        if there.overviews.get(session) != encode(expected.overview):
            lost += 1
            firsts.append(f"{session}: the overview is not the last one")
    for stranger in there.surface.keys() - fed.keys():
        duplicated += len(there.surface[stranger])
        firsts.append(f"{stranger}: a session that was not fed")
    if there.dead_letters:
        firsts.append(f"{there.dead_letters} dead letters")
    first = firsts[0] if firsts else ""
    return Audit(lost, duplicated, disordered, there.dead_letters, surface, first)


def found(bootstrap: str, names: Names) -> Found:
    surface: dict[str, list[Place]] = {}
    for record in _records(bootstrap, names.of("surface")):
        headers = dict(record.headers)
        place = (int(headers["epoch"]), int(headers["seq"]))
        surface.setdefault(record.key.decode(), []).append(place)
    overviews = {r.key.decode(): r.value for r in _records(bootstrap, names.of("overview"))}
    dead_letters = sum(1 for _ in _records(bootstrap, names.of("deadletter")))
    return Found(surface, overviews, dead_letters)


def _records(bootstrap: str, topic: str) -> Iterator[Any]:
    """All committed records of a topic, up to the ends of this moment."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        isolation_level="read_committed",
        enable_auto_commit=False,
        group_id=None,
        metrics_enabled=False,
    )
    with closing(consumer):
        places = [TopicPartition(topic, n) for n in sorted(consumer.partitions_for_topic(topic))]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        for _ in range(int(READ_S / 0.1)):
            if all(consumer.position(place) >= ends[place] for place in places):
                return
            for records in consumer.poll(timeout_ms=100).values():
                yield from records
    raise TimeoutError(f"{topic} cannot be read to its end within {READ_S:.0f} s")
