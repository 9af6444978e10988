"""Which very topics were folded: offsets and states mean nothing over others of the same name.

An `Identity` goes with every committed offset, as its metadata. So whoever goes on from an offset
finds out that a topic was deleted and made again, that the events topic has grown, or that the
offset was set by somebody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from .errors import Fatal
from .topics import FOLD_ANEW, ROLES, Found, Names

#: What is in them expires anyway: made again, they are as if all had.
EXPIRING: Final = ("partials", "deadletter")

#: Of a topic's id, which is random: enough to tell two of one name apart.
ID_LENGTH: Final = 16

#: Header of a state: the id of the events topic that it was folded from.
EVENTS_ID: Final = "events"

#: Header of a state: the offset of the events topic that its partition was folded up to.
NEXT: Final = "next"

REFOLD = (
    "stop the workers and delete the offset (`kafka-consumer-groups.sh --group APPLICATION-ID "
    "--topic EVENTS --delete-offsets`): then the next one goes on from where the states stand"
)


class Identity(Struct, frozen=True):
    """``ids``: by role. ``partitions``: of the events topic."""

    partitions: int
    ids: Mapping[str, str]

    def __str__(self) -> str:
        """The metadata of a committed offset."""
        ids = (f"{role}={self.ids[role]}" for role in ROLES if role in self.ids)
        return " ".join((f"partitions={self.partitions}", *ids))


def of(names: Names, found: Mapping[str, Found]) -> Identity:
    """Of the topics as they are; one that is missing, or has no id, is left out."""
    topics = {role: found[names.of(role)] for role in ROLES if names.of(role) in found}
    ids = {role: topic.id.replace("-", "")[:ID_LENGTH] for role, topic in topics.items()}
    events = topics.get("events")
    return Identity(events.partitions if events else 0, {r: i for r, i in ids.items() if i})


def parsed(metadata: str) -> Identity | None:
    """What ``str`` of an `Identity` says; None if it is none."""
    words = dict(word.partition("=")[::2] for word in metadata.split())
    partitions = words.pop("partitions", "")
    if not partitions.isdecimal():
        return None
    return Identity(int(partitions), words)


def made_again(now: Identity, then: Identity) -> list[str]:
    """The roles whose topic is another one than ``then``."""
    return [role for role, known in then.ids.items() if now.ids.get(role, known) != known]


def require_same(names: Names, now: Identity, then: Identity) -> None:
    """`Fatal` if what was folded as ``then`` cannot go on over the topics of ``now``."""
    lost = [names.of(role) for role in made_again(now, then) if role not in EXPIRING]
    if lost:
        were, it = ("was", "it is") if len(lost) == 1 else ("were", "they are")
        raise Fatal(
            f"{', '.join(lost)} {were} deleted and made again since {it} folded over", FOLD_ANEW
        )
    if now.partitions and now.partitions != then.partitions:
        raise grown(names, now.partitions, then.partitions)


def grown(names: Names, now: int, then: int) -> Fatal:
    """The events topic has another number of partitions than was folded with."""
    return Fatal(
        f"{names.of('events')} has {now} partitions and was folded with {then}: sessions no longer "
        "keep to one partition",
        "a topic cannot shrink: create topics of another --prefix with the number you want, and "
        "ingest the sessions into them",
    )


def require_own_group(names: Names, topics: Iterable[str]) -> None:
    """`Fatal` if the group has offsets on ``topics`` that are not ours."""
    others = sorted(set(topics) - {names.of("events")})
    if others:
        raise Fatal(
            f"the application id {names.application} is that of another deployment too: its group "
            f"has offsets of {', '.join(others)}",
            "give each deployment its own --application-id; if the other one is gone for good, "
            f"delete its offsets from the group and {names.of('state')} before the first start",
        )


def require_written_by_us(topic: str, partition: int, offset: int, metadata: str) -> Identity:
    """The identity that ``offset`` was committed with. `Fatal` if a worker did not commit it: where
    it would have the fold go on is nowhere the states are known to be."""
    identity = parsed(metadata)
    if identity is None:
        raise Fatal(
            f"offset {offset} of {topic}[{partition}] was not committed by a worker: it was set by "
            "hand, or by another program",
            REFOLD,
        )
    return identity
