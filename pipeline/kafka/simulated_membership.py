"""A simulated consumer's place in its group: joining, heartbeats, cooperative rebalances.

As kafka-python does it: the state moves on only inside `poll`, but for heartbeats and the answers
to what is under way, which come while the process lives. Owned partitions are kept over a
rebalance unless the leader moves them; what moves is given up first and dealt out in a second one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import TopicPartition
from kafka import errors as raised
from kafka.structs import ConsumerGroupMetadata, MemberState

from pipeline.memory_groups import UNJOINED, Asking, Claim, Joined
from pipeline.memory_log import Refusal
from pipeline.memory_network import Disconnected, Unanswered

from .simulated_brokers import Site, error_of

Owned = tuple[TopicPartition, ...]
Nobody = ("", UNJOINED)


def deal(partitions: int, topic: str, members: Mapping[str, Owned]) -> dict[str, Owned]:
    """Each member's share, as even as can be, with as few moves as can be. A partition that moves
    is given to nobody as long as somebody owns it."""
    places = [TopicPartition(topic, n) for n in range(partitions)]
    order = sorted(members, key=lambda name: (-len(members[name]), name))
    least, more = divmod(partitions, len(order))
    quota = {name: least + (n < more) for n, name in enumerate(order)}
    kept = {name: tuple(members[name][: quota[name]]) for name in order}
    owned = {at for held in members.values() for at in held}
    free = [at for at in places if at not in owned]
    for name in order:
        room = quota[name] - len(kept[name])
        kept[name] += tuple(free[:room])
        free = free[room:]
    return kept


class Membership:
    """``owned`` is what the consumer's assignment shows."""

    def __init__(self, site: Site, settings: Mapping[str, Any], topic: str, listener: Any) -> None:
        self._site = site
        self._time = site.time
        self._settings = settings
        self._topic = topic
        self._listener = listener
        self._group = settings["group_id"]
        self._instance = settings.get("group_instance_id")
        self._member, self._generation = Nobody
        self._state = MemberState.UNJOINED
        self._due = True  #: to join, or join anew
        self._waits = False
        self._lost = False
        self._new: Owned | None = None
        self._error: raised.KafkaError | None = None
        self._polled = site.time.monotonic()
        self._closed = False
        self.owned: Owned = ()
        self._beat()

    def metadata(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata(
            self._group, self._generation, self._member, self._instance, self._state
        )

    @property
    def has_news(self) -> bool:
        """Whether the next `turn` has something to do."""
        return (
            self._lost
            or self._new is not None
            or self._error is not None
            or (self._due and not self._waits)
        )

    def turn(self) -> None:
        """What a poll does for the group. Raises kafka-python's error where it cannot go on."""
        self._polled = self._time.monotonic()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._lost:
            self._lost, lost, self.owned = False, self.owned, ()
            if lost:
                self._listener.on_partitions_lost(lost)
        if self._new is not None:
            self._take(self._new)
        if self._due and not self._waits:
            self._join()

    def close(self, seconds: float) -> None:
        """A static member keeps its place; another leaves."""
        self._closed = True
        if self._instance is None and self._member:
            claim = self._claim()
            done: list[Any] = []
            self._send("LeaveGroup", lambda: self._at().leave(claim), done.append, seconds)
            self._time.wait(lambda: bool(done), seconds)
        if self.owned:
            self._listener.on_partitions_revoked(self.owned)
        self.owned = ()
        self._member, self._generation = Nobody

    # --- joining ----------------------------------------------------------------------------------

    def _take(self, new: Owned) -> None:
        revoked = tuple(at for at in self.owned if at not in new)
        added = tuple(at for at in new if at not in self.owned)
        self._new = None
        self.owned = new
        if revoked:
            self._listener.on_partitions_revoked(revoked)
            self._due = True
        if added:
            self._listener.on_partitions_assigned(added)

    def _join(self) -> None:
        self._due, self._waits, self._state = False, True, MemberState.REBALANCING
        asking = Asking(
            self._member,
            self._instance,
            self.owned,
            self._settings["session_timeout_ms"] / 1000,
            self._settings["max_poll_interval_ms"] / 1000,
        )
        seconds = self._settings["max_poll_interval_ms"] / 1000 + 5
        self._site.send(
            ("JoinGroup", self._key()),
            lambda reply: self._at().join(asking, reply),
            self._joined,
            seconds,
        )

    def _joined(self, answer: Any) -> None:
        if self._closed:
            return
        if not isinstance(answer, Joined):
            self._refused(answer)
            return
        self._member, self._generation = answer.member_id, answer.generation
        dealt = None
        if answer.leader == answer.member_id and not answer.stays:
            count = self._site.brokers.memory.topics()[self._topic]
            members: Any = answer.members
            dealt = deal(count, self._topic, members)
        claim = self._claim()
        self._site.send(
            ("SyncGroup", self._key()),
            lambda reply: self._at().sync(claim, dealt, reply),
            self._synced,
            self._settings["max_poll_interval_ms"] / 1000,
        )

    def _synced(self, answer: Any) -> None:
        if self._closed:
            return
        if isinstance(answer, Refusal | Disconnected | Unanswered):
            self._refused(answer)
            return
        self._waits, self._state = False, MemberState.STABLE
        self._new = tuple(answer or ())

    def _refused(self, answer: Any) -> None:
        """Join anew; as a new member if this one is no more."""
        self._waits, self._due, self._state = False, True, MemberState.UNJOINED
        if not isinstance(answer, Refusal) or answer.code == "REBALANCE_IN_PROGRESS":
            return
        if answer.code == "FENCED_INSTANCE_ID":
            self._error = error_of(answer)
        self._leave_behind()

    def _leave_behind(self) -> None:
        self._member, self._generation = Nobody
        self._due, self._lost, self._new = True, True, None
        self._state = MemberState.UNJOINED

    # --- heartbeats -------------------------------------------------------------------------------

    def _beat(self) -> None:
        """Sent by the client's own thread. A process that does not poll for long leaves by itself
        (H3)."""
        if self._closed:
            return
        self._site.later(self._settings["heartbeat_interval_ms"] / 1000, self._beat)
        if not self._member or self._waits:
            return
        idle = self._time.monotonic() - self._polled
        claim = self._claim()
        if idle > self._settings["max_poll_interval_ms"] / 1000:
            self._send("LeaveGroup", lambda: self._at().leave(claim), lambda _: None, 5.0)
            self._leave_behind()
            return
        self._send(
            "Heartbeat",
            lambda: self._at().heartbeat(claim),
            lambda answer: self._beaten(claim, answer),
            self._settings["session_timeout_ms"] / 1000,
        )

    def _beaten(self, claim: Claim, answer: Any) -> None:
        if not isinstance(answer, Refusal) or self._closed or claim != self._claim() or self._waits:
            return
        if answer.code == "REBALANCE_IN_PROGRESS":
            self._due, self._state = True, MemberState.REBALANCING
        else:
            self._refused(answer)

    # --- requests ---------------------------------------------------------------------------------

    def _send(self, name: str, serve: Any, answer: Any, seconds: float) -> None:
        self._site.send((name, self._key()), lambda reply: reply(serve()), answer, seconds)

    def _claim(self) -> Claim:
        return Claim(self._member, self._generation, self._instance)

    def _key(self) -> int:
        return self._site.brokers.coordinator(self._group)

    def _at(self) -> Any:
        return self._site.brokers.group(self._group)
