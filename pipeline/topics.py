"""The topics of streams.md §1: their names, what they must look like, and what differs.

The pure part (`Names`, `specs`, `differences`) serves every broker; `client.KafkaTopics` describes
and creates them on a real one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from . import limits
from .errors import Fatal

ROLES = ("events", "surface", "transcript", "partials", "overview", "deadletter", "state")
HOUR_MS = 3_600_000
FOREVER_MS = -1

FOLD_ANEW = (
    "to fold all anew, stop the workers, delete the consumer group (named as the application id) "
    "and foldstream's topics except events, all of them, then run `foldstream topics create`"
)
"""What goes on from committed offsets makes no lost output again: one topic alone is not enough."""


class Names(Struct, frozen=True):
    """Topic names of one deployment: ``prefix`` as in ``sessions.``, ``application`` the id that
    also names the consumer group and the state topic."""

    prefix: str = "sessions."
    application: str = "foldstream"

    def of(self, role: str) -> str:
        """The topic of one of `ROLES`."""
        if role not in ROLES:
            raise ValueError(f"no topic has the role {role!r}")
        return f"{self.application}.state" if role == "state" else self.prefix + role


class TopicSpec(Struct, frozen=True):
    """What a topic must be. ``settings`` are Kafka's own names and values, as text."""

    role: str
    name: str
    partitions: int
    settings: Mapping[str, str]


class Found(Struct, frozen=True):
    """What a topic is. ``id``: one made anew under its name has another; "" if it is not known."""

    partitions: int
    settings: Mapping[str, str]
    id: str = ""


class Difference(Struct, frozen=True):
    """One thing that differs; ``fatal`` when a worker must not start with it."""

    topic: str
    what: str
    fix: str
    fatal: bool = False

    def __str__(self) -> str:
        return f"{self.topic}: {self.what}; {self.fix}"


def specs(
    names: Names,
    partitions: int = limits.PARTITIONS,
    deadletter_partitions: int = limits.DEADLETTER_PARTITIONS,
    retention_ms: int = FOREVER_MS,
) -> tuple[TopicSpec, ...]:
    """All seven topics. ``retention_ms`` is that of events and surface (-1: for ever)."""
    keep = {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}
    compact = {"cleanup.policy": "compact"}
    settings = {
        "events": keep,
        "surface": keep,
        "transcript": compact,
        "partials": {"cleanup.policy": "delete", "retention.ms": str(HOUR_MS)},
        "overview": compact,
        "deadletter": {"cleanup.policy": "delete", "retention.ms": str(30 * 24 * HOUR_MS)},
        "state": compact,
    }
    return tuple(
        TopicSpec(
            role=role,
            name=names.of(role),
            partitions=deadletter_partitions if role == "deadletter" else partitions,
            settings={
                **settings[role],
                "max.message.bytes": str(_largest(role)),
                # Retention goes by it: no clock but the broker's may decide what expires.
                "message.timestamp.type": "LogAppendTime",
            },
        )
        for role in ROLES
    )


def _largest(role: str) -> int:
    return limits.MAX_INPUT_RECORD_BYTES if role == "events" else limits.MAX_OUTPUT_RECORD_BYTES


def differences(wanted: Iterable[TopicSpec], found: Mapping[str, Found]) -> list[Difference]:
    """Everything that is not as it must be, missing topics first."""
    wanted = tuple(wanted)
    missing = [
        Difference(spec.name, "is missing", _missing(spec, found), fatal=True)
        for spec in wanted
        if spec.name not in found
    ]
    present = [spec for spec in wanted if spec.name in found]
    wrong = [d for spec in present for d in _of_topic(spec, found[spec.name])]
    return missing + wrong


def _missing(spec: TopicSpec, found: Mapping[str, Found]) -> str:
    """Nobody misses partials for long; another output that is new beside folded ones has a hole."""
    create = "run `foldstream topics create`"
    if not found or spec.role in ("events", "partials"):
        return create
    return f"if nothing has been folded yet, {create}; else, {FOLD_ANEW}"


def _of_topic(spec: TopicSpec, topic: Found) -> list[Difference]:
    out = []
    if spec.role != "deadletter" and topic.partitions != spec.partitions:
        out.append(_partitions(spec, topic.partitions))
    for key, value in spec.settings.items():
        has = topic.settings.get(key)
        if has is not None and has != value:
            fix = (
                f"kafka-configs --alter --entity-type topics --entity-name {spec.name} "
                f"--add-config {key}={value}"
            )
            what = f"{key} is {has}, should be {value}"
            out.append(Difference(spec.name, what, fix, fatal=(spec.role, key) in _RUINOUS))
    return out


#: Compaction would leave the last line of each session, retention would take states away.
_RUINOUS = (("events", "cleanup.policy"), ("state", "cleanup.policy"))


def largest_batch(found: Iterable[Found]) -> int:
    """Bytes that a broker takes at once on every one of the topics."""
    limit = limits.PRODUCER_BATCH_BYTES
    return min(limit, *(int(topic.settings.get("max.message.bytes", limit)) for topic in found))


def _partitions(spec: TopicSpec, has: int) -> Difference:
    """Growing an output topic is harmless, as partitions are explicit; growing the events topic
    would send a session's next records to another partition than its first."""
    what = f"has {has} partitions, should have {spec.partitions}"
    if spec.role == "events":
        fix = (
            f"work with {has} partitions (--partitions {has}), or ingest into new topics "
            f"(another --prefix) with {spec.partitions}: a session may not change its partition"
        )
    elif has < spec.partitions:
        fix = f"kafka-topics --alter --topic {spec.name} --partitions {spec.partitions}"
    else:
        fix = FOLD_ANEW
    return Difference(spec.name, what, fix, fatal=True)


def require(names: Names, found: Mapping[str, Found]) -> int:
    """The number of partitions a worker works with: that of the events topic, which every other
    topic but the dead letters must share. `Fatal` with the fix if one is missing or differs."""
    events = found.get(names.of("events"))
    partitions = events.partitions if events else limits.PARTITIONS
    fatal = [d for d in differences(specs(names, partitions), found) if d.fatal]
    if fatal:
        first, *others = fatal
        more = f" (and {len(others)} more: run `foldstream topics check`)" if others else ""
        raise Fatal(f"topic {first.topic} {first.what}", first.fix + more)
    return partitions
