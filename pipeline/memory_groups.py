"""The group coordinator of a broker in memory: Kafka's classic protocol, and committed offsets.

Members join, the leader deals out, all sync; heartbeats within the session's time; static members
keep their place over a restart. A member may hold back a rebalance for its poll interval at most.
Answers may come later, so every request that waits carries a ``reply``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct

from .memory_log import Refusal
from .memory_transactions import Place

Answer: TypeAlias = Callable[["Joined | Refusal"], None]
Synced: TypeAlias = Callable[[object | Refusal], None]
After: TypeAlias = Callable[[float, Callable[[], None]], None]

EMPTY, PREPARING, COMPLETING, STABLE = "empty", "preparing", "completing", "stable"
UNJOINED = -1  #: the generation of who names no generation


class Asking(Struct, frozen=True):
    """Who joins: ``member_id`` "" for a new one, ``instance`` None unless static; ``metadata`` is
    the client's own (its subscription), handed to the leader as it is."""

    member_id: str
    instance: str | None
    metadata: object
    session_s: float
    rebalance_s: float


class Joined(Struct, frozen=True):
    """``members`` (id → metadata) is told to the leader alone; ``stays``: a static member is back
    and nothing is dealt anew."""

    generation: int
    member_id: str
    leader: str
    members: Mapping[str, object] = {}
    stays: bool = False


class Claim(Struct, frozen=True):
    """In whose name a request is made."""

    member_id: str
    generation: int
    instance: str | None = None


class _Member(Struct, eq=False):
    asking: Asking
    alive_until: float
    joining: Answer | None = None
    syncing: Synced | None = None


class Group:
    """One group. ``after`` runs a call in so many seconds."""

    def __init__(self, now: Callable[[], float], after: After) -> None:
        self._now = now
        self._after = after
        self._members: dict[str, _Member] = {}
        self._dealt: Mapping[str, object] = {}
        self._leader = ""
        self._made = 0
        self._round = 0
        self.generation = 0
        self.state = EMPTY

    def dealt(self) -> dict[str, object]:
        """What each member was given last."""
        return {name: self._dealt.get(name) for name in self._members}

    # --- requests ---------------------------------------------------------------------------------

    def join(self, asking: Asking, reply: Answer) -> None:
        if asking.member_id == "":
            self._enter(asking, reply)
            return
        member = self._known(Claim(asking.member_id, self.generation, asking.instance))
        changed = member.asking.metadata != asking.metadata
        member.asking = asking
        member.joining = reply
        self._touch(member)
        if self.state == PREPARING:
            self._complete_join()
        elif changed or asking.member_id == self._leader or self.state == EMPTY:
            self._prepare()
        else:  # nothing has changed for this one: it missed an answer
            self._answer(asking.member_id, member)

    def sync(self, claim: Claim, dealt: Mapping[str, object] | None, reply: Synced) -> None:
        """``dealt``: by the leader, what each member gets."""
        member = self._claimed(claim)
        if self.state == PREPARING:
            raise Refusal("REBALANCE_IN_PROGRESS")
        if self.state == STABLE:
            reply(self._dealt.get(claim.member_id))
            return
        member.syncing = reply
        if dealt is None:
            return
        self._dealt, self.state = dict(dealt), STABLE
        for name, waiting in self._members.items():
            if waiting.syncing is not None:
                answer, waiting.syncing = waiting.syncing, None
                self._touch(waiting)
                answer(self._dealt.get(name))

    def heartbeat(self, claim: Claim) -> None:
        self._touch(self._claimed(claim))
        if self.state == PREPARING:
            raise Refusal("REBALANCE_IN_PROGRESS")

    def leave(self, claim: Claim) -> None:
        self._known(claim)
        self._remove(claim.member_id)

    def may_commit(self, claim: Claim) -> None:
        """Offsets inside a transaction. Who names no member and no generation is *not* checked, as
        clients of old could not."""
        if claim.member_id == "" and claim.generation == UNJOINED:
            return
        self._claimed(claim)

    # --- inside -----------------------------------------------------------------------------------

    def _known(self, claim: Claim) -> _Member:
        if claim.instance is not None:
            holder = self.holder(claim.instance)
            if holder is not None and holder != claim.member_id:
                raise Refusal("FENCED_INSTANCE_ID")
        member = self._members.get(claim.member_id)
        if member is None:
            raise Refusal("UNKNOWN_MEMBER_ID")
        return member

    def _claimed(self, claim: Claim) -> _Member:
        member = self._known(claim)
        if claim.generation != self.generation:
            raise Refusal("ILLEGAL_GENERATION")
        return member

    def holder(self, instance: str) -> str | None:
        held = (name for name, at in self._members.items() if at.asking.instance == instance)
        return next(held, None)

    def _enter(self, asking: Asking, reply: Answer) -> None:
        self._made += 1
        name = f"{asking.instance or 'member'}-{self._made}"
        member = _Member(asking, 0.0, reply)
        holder = self.holder(asking.instance) if asking.instance is not None else None
        if holder is not None:
            self._replace(holder, name, member)
            return
        self._members[name] = member
        self._touch(member)
        self._prepare()

    def _replace(self, holder: str, name: str, member: _Member) -> None:
        """A static member is back: it takes the place of who had its instance, who is fenced."""
        elder = self._members.pop(holder)
        for answer in (elder.joining, elder.syncing):
            if answer is not None:
                answer(Refusal("FENCED_INSTANCE_ID"))
        self._members[name] = member
        self._touch(member)
        if self._leader == holder:
            self._leader = name
        if self.state == STABLE:
            self._dealt = {**self._dealt, name: self._dealt.get(holder)}
            self._answer(name, member, stays=True)
        elif self.state == PREPARING:
            self._complete_join()
        else:
            self._prepare()

    def _touch(self, member: _Member) -> None:
        """Alive for a session's time from now on. Who waits for an answer is not counted dead."""
        first = member.alive_until == 0.0
        member.alive_until = self._now() + member.asking.session_s
        if first:
            self._after(member.asking.session_s, lambda: self._look_after(member))

    def _look_after(self, member: _Member) -> None:
        name = next((name for name, known in self._members.items() if known is member), None)
        if name is None:
            return
        if member.joining is not None or member.syncing is not None:
            self._touch(member)
        left = member.alive_until - self._now()
        if left <= 0:
            self._remove(name)
        else:
            self._after(left, lambda: self._look_after(member))

    def _remove(self, name: str) -> None:
        del self._members[name]
        if self.state == PREPARING:
            self._complete_join()
        elif self._members:
            self._prepare()
        else:
            self.state = EMPTY
            self.generation += 1

    def _prepare(self) -> None:
        """All must join anew, within the longest of their poll intervals."""
        for member in self._members.values():
            if member.syncing is not None:
                answer, member.syncing = member.syncing, None
                answer(Refusal("REBALANCE_IN_PROGRESS"))
        self.state = PREPARING
        self._round += 1
        this = self._round
        longest = max(member.asking.rebalance_s for member in self._members.values())
        self._after(longest, lambda: self._give_up(this))
        self._complete_join()

    def _give_up(self, which: int) -> None:
        if self.state != PREPARING or which != self._round:
            return
        for name, member in list(self._members.items()):
            if member.joining is None and member.asking.instance is None:
                del self._members[name]
        self._complete_join(whatever=True)

    def _complete_join(self, whatever: bool = False) -> None:
        waiting = [m for m in self._members.values() if m.joining is None]
        if waiting and not whatever:
            return
        joined = [name for name, member in self._members.items() if member.joining is not None]
        self.generation += 1
        if not joined:
            self.state = EMPTY if not self._members else PREPARING
            return
        self.state, self._dealt = COMPLETING, {}
        if self._leader not in joined:
            self._leader = joined[0]
        for name in joined:
            member = self._members.get(name)
            if member is not None and member.joining is not None:
                self._answer(name, member)

    def _answer(self, name: str, member: _Member, *, stays: bool = False) -> None:
        answer, member.joining = member.joining, None
        self._touch(member)
        leads = name == self._leader and not stays
        members = {n: m.asking.metadata for n, m in self._members.items()} if leads else {}
        assert answer is not None
        answer(Joined(self.generation, name, self._leader, members, stays))


class Offsets:
    """What groups have committed, and what open transactions carry for them."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[Place, int]] = {}
        self._pending: dict[str, dict[int, dict[Place, int]]] = {}

    def add(self, group: str, producer_id: int, offsets: Mapping[Place, int]) -> None:
        """They count when the producer's transaction commits."""
        if not offsets:
            return
        pending = self._pending.setdefault(group, {})
        pending.setdefault(producer_id, {}).update(offsets)

    def mark(self, group: str, producer_id: int, commits: bool) -> None:
        """The marker: counts for all the producer has pending, whichever transaction brought it."""
        offsets = self._pending.get(group, {}).pop(producer_id, {})
        if commits:
            self._committed.setdefault(group, {}).update(offsets)

    def decided(self, group: str) -> bool:
        """Whether no open transaction carries offsets of the group."""
        return not self._pending.get(group)

    def committed(self, group: str) -> Mapping[Place, int]:
        return self._committed.get(group, {})
