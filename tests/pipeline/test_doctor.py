"""doctor: each finding over a cluster that says so; and what may not be seen is one, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field
from msgspec.structs import replace

from pipeline.doctor import Finding, Surroundings, examine, machine
from pipeline.doctor.facts import (
    DAY_MS,
    HOUR_MS,
    Broker,
    Copies,
    Group,
    Member,
    Offsets,
    Open,
    Transaction,
    span,
)
from pipeline.doctor.stores import look
from pipeline.errors import Fatal
from pipeline.store.local import LocalStore
from pipeline.store.origin import Origin
from pipeline.topics import ROLES, Found, Names, specs

NAMES = Names()
EVENTS = "sessions.events"
NOW = 1_800_000_000_000
PARTITIONS = 2


def found_topics(**other: Mapping[str, str]) -> dict[str, Found]:
    """As they should be, but for the settings of some roles."""
    return {
        spec.name: Found(spec.partitions, {**spec.settings, **other.get(spec.role, {})})
        for spec in specs(NAMES, PARTITIONS)
    }


def copies(replicas: int = 3, in_sync: int = 3, leader: int = 1) -> list[Copies]:
    return [
        Copies(topic, 0, leader, replicas, in_sync)
        for topic in (*map(NAMES.of, ROLES), "__consumer_offsets", "__transaction_state")
    ]


def member(*partitions: int, client: str = "w-1") -> Member:
    return Member(f"{client}-id", client, "/10.0.0.1", client, partitions)


BROKERS = [Broker(n, f"b{n}:9092", (4, 0), features={"transaction.version": 2}) for n in (1, 2, 3)]
SETTINGS = {
    "transaction.max.timeout.ms": "900000",
    "transactional.id.expiration.ms": str(7 * DAY_MS),
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "offsets.retention.minutes": "10080",
}


class Fake(Struct):
    """A deployment in good health, but for what a test makes of it. A `Fatal` instead of a fact is
    raised; a list of offsets is one look after the other."""

    brokers_: Any = field(default_factory=lambda: list(BROKERS))
    settings_: Any = field(default_factory=lambda: dict(SETTINGS))
    topics_: Any = field(
        default_factory=lambda: found_topics(**{r: {"min.insync.replicas": "2"} for r in ROLES})
    )
    copies_: Any = field(default_factory=copies)
    group_: Any = field(default_factory=lambda: Group("Stable", (member(0, 1),)))
    offsets_: Any = field(
        default_factory=lambda: [{0: Offsets(0, 9, 9, 9), 1: Offsets(0, 5, 5, 5)}]
    )
    stamp_: Any = NOW
    newest_: Any = NOW
    open_: Any = field(default_factory=list)
    transactions_: Any = field(default_factory=lambda: [[]])

    def _said(self, fact: Any) -> Any:
        if isinstance(fact, Exception):
            raise fact
        return fact

    def cluster(self) -> str:
        return "c"

    def brokers(self) -> list[Broker]:
        return list(self._said(self.brokers_))

    def settings(self) -> Mapping[str, str]:
        return dict(self._said(self.settings_))

    def topics(self, names: Iterable[str]) -> dict[str, Found]:
        there = self._said(self.topics_)
        return {name: there[name] for name in names if name in there}

    def copies(self, topics: Iterable[str]) -> list[Copies]:
        wanted = set(topics)
        return [one for one in self._said(self.copies_) if one.topic in wanted]

    def group(self, group: str) -> Group:
        assert group == NAMES.application
        found: Group = self._said(self.group_)
        return found

    def offsets(self, group: str, topic: str) -> dict[int, Offsets]:
        looks = self._said(self.offsets_)
        found: dict[int, Offsets] = looks.pop(0) if len(looks) > 1 else looks[0]
        return found

    def stamp(self, topic: str, partition: int, offset: int) -> int | None:
        stamp: int | None = self._said(self.stamp_)
        return stamp

    def newest(self, topic: str) -> int | None:
        newest: int | None = self._said(self.newest_)
        return newest

    def open_transactions(self, topics: Iterable[str]) -> list[Open]:
        return list(self._said(self.open_))

    def transactions(self, names: Names) -> list[Transaction]:
        looks = self._said(self.transactions_)
        found: list[Transaction] = looks.pop(0) if len(looks) > 1 else looks[0]
        return found


def findings(probe: Fake, now_ms: int = NOW) -> list[Finding]:
    ticks = iter(range(now_ms, now_ms + 1_000_000, 100))
    about = Surroundings(NAMES, "b1:9092", lambda: next(ticks), lambda: None)
    return list(examine(probe, about))


def amiss(probe: Fake) -> Finding:
    """The one finding that is not ok."""
    (finding,) = (one for one in findings(probe) if one.level != "ok")
    return finding


def test_good_health_is_ok_in_every_check() -> None:
    found = findings(Fake())
    assert {one.level for one in found} == {"ok"}
    assert {one.check for one in found} == {
        *("broker", "features", "topic", "copies", "transactions", "clock", "group", "offsets"),
        *("lag", "hanging"),
    }


# --- the cluster ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broker", "level", "said"),
    [
        (replace(BROKERS[0], fenced=True), "fail", "is fenced"),
        (replace(BROKERS[0], version=None), "warn", "does not tell"),
        (replace(BROKERS[0], version=(2, 8)), "fail", "older than 3.0"),
    ],
)
def test_a_broker(broker: Broker, level: str, said: str) -> None:
    probe = Fake(brokers_=[broker] * 3)
    found = [one for one in findings(probe) if one.check == "broker"]
    assert {one.level for one in found} == {level}
    assert said in found[0].what


def test_features() -> None:
    mixed = [*BROKERS[:2], replace(BROKERS[2], version=(3, 9))]
    assert amiss(Fake(brokers_=mixed)).remedy == "finish the upgrade"
    old = [replace(one, features={"transaction.version": 1}) for one in BROKERS]
    assert "transaction.version is 1" in amiss(Fake(brokers_=old)).what
    silent = [replace(one, features={}) for one in BROKERS]
    assert amiss(Fake(brokers_=silent)).check == "features"


def test_a_topic_that_is_missing_and_one_with_a_wrong_setting() -> None:
    probe = Fake()
    del probe.topics_[NAMES.of("overview")]
    finding = amiss(probe)
    assert (finding.level, finding.check, finding.where) == ("fail", "topic", "sessions.overview")
    probe = Fake()
    wrong = {**probe.topics_[NAMES.of("state")].settings, "cleanup.policy": "delete"}
    probe.topics_[NAMES.of("state")] = replace(probe.topics_[NAMES.of("state")], settings=wrong)
    finding = amiss(probe)
    assert "cleanup.policy is delete" in finding.what
    assert "kafka-configs" in finding.remedy


def test_unclean_leader_election() -> None:
    probe = Fake()
    settings = {**probe.topics_[EVENTS].settings, "unclean.leader.election.enable": "true"}
    probe.topics_[EVENTS] = replace(probe.topics_[EVENTS], settings=settings)
    finding = amiss(probe)
    assert (finding.level, finding.where) == ("fail", EVENTS)
    assert "unclean" in finding.what
    assert "unclean.leader.election.enable=false" in finding.remedy


@pytest.mark.parametrize(
    ("found", "level", "said"),
    [
        (copies(leader=-1), "fail", "no leader"),
        (copies(in_sync=1), "fail", "fewer copies in sync"),
        (copies(in_sync=2), "warn", "not in sync"),
        (copies(replicas=2, in_sync=2), "warn", "one broker away stops it"),
        (copies(replicas=1, in_sync=1), "fail", "nothing can be written"),
    ],
)
def test_copies(found: list[Copies], level: str, said: str) -> None:
    told = [one for one in findings(Fake(copies_=found)) if one.check == "copies"]
    assert any(one.level == level and said in one.what for one in told), told
    assert {one.where for one in told} > {EVENTS, "__transaction_state"}


def test_few_copies_and_few_that_must_acknowledge() -> None:
    few = [replace(one, replicas=2, in_sync=2) if one.topic == EVENTS else one for one in copies()]
    told = [one for one in findings(Fake(copies_=few)) if one.where == EVENTS]
    assert any("has 2 of 3 copies" in one.what for one in told)
    loose = Fake(settings_={**SETTINGS, "transaction.state.log.min.isr": "1"})
    finding = amiss(loose)
    assert finding.where == "__transaction_state"
    assert "min.insync.replicas is 1" in finding.what


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("transaction.max.timeout.ms", "5000", "fail"),
        ("transactional.id.expiration.ms", "60000", "warn"),
        ("transaction.partition.verification.enable", "false", "warn"),
    ],
)
def test_settings_of_transactions(name: str, value: str, level: str) -> None:
    finding = amiss(Fake(settings_={**SETTINGS, name: value}))
    assert (finding.level, finding.check) == (level, "transactions")
    assert name in finding.what
    assert name in finding.remedy


# --- the group ------------------------------------------------------------------------------------


def test_nobody_works() -> None:
    probe = Fake(group_=Group("Empty"), offsets_=[{0: Offsets(0, 9, 9, 4)}])
    found = {one.check: one for one in findings(probe) if one.level != "ok"}
    assert found["group"].what == "no worker runs (Empty), and 5 records wait"
    assert "foldstream run" in found["group"].remedy
    assert "forgets its offsets after 7 d" in found["offsets"].what
    assert found["lag"].level == "warn"


def test_members() -> None:
    assert "nobody has partitions 1" in amiss(Fake(group_=Group("Stable", (member(0),)))).what
    idle = Group("Stable", (member(0, 1), member(client="w-2")))
    assert "without partitions, e.g. w-2" in amiss(Fake(group_=idle)).what
    moving = Group("PreparingRebalance", (member(0, 1),))
    assert "PreparingRebalance" in amiss(Fake(group_=moving)).what


def test_offsets_that_do_not_stand_on_the_topic() -> None:
    beyond = amiss(Fake(offsets_=[{0: Offsets(0, 9, 9, 12), 1: Offsets(0, 1, 1, 1)}]))
    assert (beyond.level, beyond.where) == ("fail", f"{EVENTS}[0]")
    assert "offset 12 is committed, and the topic ends at 9" in beyond.what
    expired = amiss(Fake(offsets_=[{0: Offsets(9, 9, 9, 6), 1: Offsets(0, 1, 1, 1)}]))
    assert "3 records expired before they were folded" in expired.what


@pytest.mark.parametrize(
    ("age_ms", "level"),
    [(5 * DAY_MS, None), (7 * DAY_MS - 12 * HOUR_MS, "warn"), (7 * DAY_MS - 60_000, "fail")],
)
def test_how_long_until_a_waiting_record_expires(age_ms: int, level: str | None) -> None:
    kept = {**Fake().topics_, EVENTS: Found(PARTITIONS, {"retention.ms": str(7 * DAY_MS)})}
    waiting = [{0: Offsets(0, 9, 9, n), 1: Offsets(0, 1, 1, 1)} for n in range(4, 8)]
    probe = Fake(topics_=kept, offsets_=waiting, stamp_=NOW - age_ms)
    found = [one for one in findings(probe) if one.check == "retention"]
    assert [one.level for one in found] == ([] if level is None else [level])


def test_a_partition_that_does_not_move() -> None:
    """The other one does."""
    looks = [{0: Offsets(0, 9, 50, 9), 1: Offsets(0, 99, 99, n)} for n in range(20)]
    finding = amiss(Fake(offsets_=looks))
    assert (finding.check, finding.where) == ("stuck", f"{EVENTS}[0]")
    assert "41 records wait" in finding.what
    assert "an open transaction holds it at 9" in finding.what


def test_a_partition_that_waits_its_turn_is_not_stuck() -> None:
    slow = [4, 4, 4, 4, 5, 5, 5, 5]
    looks = [{0: Offsets(0, 9, 9, n), 1: Offsets(0, 9, 9, 9)} for n in slow]
    assert {one.level for one in findings(Fake(offsets_=looks))} == {"ok"}


# --- transactions ---------------------------------------------------------------------------------

ORPHAN = Open("sessions.surface", 1, 77, 120, NOW - HOUR_MS)


def transaction(state: str, started_ms: int, *partitions: tuple[str, int]) -> Transaction:
    return Transaction("foldstream-w1", 77, state, 10_000, started_ms, frozenset(partitions))


def test_a_transaction_that_nobody_will_end() -> None:
    finding = amiss(Fake(open_=[ORPHAN]))
    assert (finding.level, finding.where) == ("fail", "sessions.surface[1]")
    assert "60 min ago, and is nobody's" in finding.what
    assert "abort --topic sessions.surface --partition 1 --start-offset 120" in finding.remedy


def test_an_orphan_of_a_worker_of_ours() -> None:
    over = transaction("CompleteAbort", NOW - HOUR_MS)
    finding = amiss(Fake(open_=[ORPHAN], transactions_=[[over]]))
    assert "of foldstream-w1, for whom it is over" in finding.what
    assert "--instance w1" in finding.remedy


def test_a_transaction_under_way_and_one_that_is_overdue() -> None:
    at = ("sessions.surface", 1)
    running = Fake(open_=[ORPHAN], transactions_=[[transaction("Ongoing", NOW - 2_000, at)]])
    assert {one.level for one in findings(running)} == {"ok"}
    overdue = amiss(
        Fake(open_=[ORPHAN], transactions_=[[transaction("Ongoing", NOW - HOUR_MS, at)]])
    )
    assert overdue.where == "transactional id foldstream-w1"
    assert "longer than its timeout" in overdue.what


def test_one_that_ended_between_two_looks_is_no_orphan() -> None:
    just = replace(ORPHAN, last_ms=NOW - 500)
    assert {one.level for one in findings(Fake(open_=[just]))} == {"ok"}


# --- clocks ---------------------------------------------------------------------------------------


def clock(first: int, second: int, newest: int | None = None) -> list[Finding]:
    looks = [[transaction("CompleteCommit", at)] for at in (first, second)]
    probe = Fake(transactions_=looks, newest_=newest)
    ticks = iter((NOW, NOW + 3_000, NOW + 3_000, NOW + 3_000))
    return list(machine.clock(probe, NAMES, lambda: next(ticks, NOW + 3_000), lambda: None))


def test_a_transaction_that_began_between_two_looks_bounds_the_skew() -> None:
    (fine,) = clock(NOW - 500, NOW + 1_000)
    assert (fine.level, "between -2000 and 1000 ms" in fine.what) == ("ok", True)
    (ahead,) = clock(NOW + 60_000, NOW + 61_000)
    assert (ahead.level, "ahead of" in ahead.what) == ("warn", True)
    (behind,) = clock(NOW - 61_000, NOW - 60_000)
    assert (behind.level, "60 s or more behind" in behind.what) == ("warn", True)


def test_without_one_it_cannot_be_told_but_the_future_shows() -> None:
    (unknown,) = clock(NOW - 500, NOW - 500)
    assert "cannot be told" in unknown.what
    (ahead,) = clock(NOW + 90_000, NOW + 90_000)
    assert (ahead.level, ahead.where) == ("warn", "transaction coordinator")
    told = clock(NOW - 500, NOW - 500, newest=NOW + HOUR_MS)
    assert [one.where for one in told[1:]] == [EVENTS, "foldstream.state"]
    assert "is stamped 60 min from now" in told[1].what


# --- this machine ---------------------------------------------------------------------------------


def client(python: tuple[int, ...] = (3, 11, 7), **other: str | None) -> Iterator[Finding]:
    installed = {"kafka-python": "3.0.12", "crc32c": "2.9"} | {
        name.replace("_", "-"): version for name, version in other.items()
    }
    return machine.client(installed, python)


def test_versions_with_known_faults() -> None:
    assert {one.level for one in client()} == {"ok"}
    old = [one for one in client(kafka_python="3.0.8") if one.level == "fail"]
    assert [one.what.split("(")[0] for one in old] == [
        "3.0.8: partitions are silently stuck after a rebalance ",
        "3.0.8: flush hangs over expired batches ",
    ]
    assert any(one.level == "warn" for one in client(kafka_python="4.0"))
    assert any("is missing" in one.what for one in client(crc32c=None))
    assert any("is missing" in one.what for one in client(kafka_python=None))
    assert any("run 3.11" in one.remedy for one in client(python=(3, 10, 2)))


def test_the_local_store(tmp_path: Path) -> None:
    origin = Origin("c", "t", "foldstream", 86_400.0)
    folder = tmp_path / "foldstream" / "w-0"

    def told(other: Origin = origin) -> list[Finding]:
        return list(machine.store(folder, lambda path: look(path, other, NOW / 1000)))

    assert [one.what for one in machine.store(None, lambda _: iter(()))] == [
        "cold sessions stay in memory, as asked"
    ]
    assert "is not there" in told()[0].what
    store = LocalStore(folder, origin, lambda: NOW / 1000)
    store.open(3)
    store.write(3, [("s", "", b"head")], 17)
    store.close()
    (finding,) = told()
    assert (finding.level, finding.what) == ("ok", "1 partition with 1 session of this cluster")
    wrong = told(Origin("other", "t", "foldstream", 86_400.0))[0]
    assert wrong.level == "warn"
    assert "it is of another cluster" in wrong.what


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SPARE_BYTES", 1 << 62)
    (full, _) = machine.store(tmp_path / "none", lambda _: iter(()))
    assert (full.level, "MiB are free" in full.what) == ("warn", True)


# --- rights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fact", "checks"),
    [
        ("brokers_", {"broker", "copies"}),
        ("settings_", {"copies", "transactions"}),
        ("topics_", {"topic", "copies", "clock", "offsets", "hanging"}),
        ("copies_", {"copies"}),
        ("group_", {"group", "offsets", "lag"}),
        ("offsets_", {"group", "offsets", "lag"}),
        ("open_", {"hanging"}),
        ("transactions_", {"clock", "hanging"}),
    ],
)
def test_what_may_not_be_seen_is_a_finding_and_the_others_go_on(
    fact: str, checks: set[str]
) -> None:
    denied = Fatal("not authorised", "grant it")
    found = [one for one in findings(Fake(**{fact: denied})) if one.level != "ok"]
    assert {one.check for one in found} == checks
    assert {one.level for one in found} == {"warn"}
    assert all("not authorised" in one.what and one.remedy == "grant it" for one in found)


def test_lengths_of_time() -> None:
    told = [span(ms) for ms in (20, 1_999, 3_000, 180_000, 7_200_000, 7 * DAY_MS)]
    assert told == ["20 ms", "1999 ms", "3 s", "3 min", "2 h", "7 d"]
