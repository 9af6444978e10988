"""Brokers, topics, copies and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline import limits
from pipeline.topics import ROLES, Found, Names, differences, specs

from .facts import DAY_MS, Broker, Copies, Finding, Probe, plural, span

OLDEST = (3, 0)  #: of brokers: all that a worker asks is answered since then
COPIES = 3  #: of each partition, where there are as many brokers
INTERNAL = ("__consumer_offsets", "__transaction_state")
EXPIRY_DAYS = 1


def brokers(probe: Probe) -> Iterator[Finding]:
    """Versions, features, and who is away."""
    found = probe.brokers()
    for broker in found:
        where = f"broker {broker.id} at {broker.address}"
        if broker.fenced:
            yield Finding("fail", "broker", where, "is fenced", "see its log, and restart it")
        elif broker.version is None:
            yield Finding("warn", "broker", where, "does not tell its version")
        elif broker.version < OLDEST:
            what = f"runs {_version(broker.version)}, which is older than {_version(OLDEST)}"
            yield Finding("fail", "broker", where, what, f"upgrade to {_version(OLDEST)} or newer")
        else:
            yield Finding(
                "ok", "broker", where, f"speaks the protocol of {_version(broker.version)}"
            )
    yield from _features(found)


def _features(found: list[Broker]) -> Iterator[Finding]:
    versions = {broker.version for broker in found if broker.version}
    if len(versions) > 1:
        told = ", ".join(sorted(map(_version, versions)))
        yield Finding("warn", "features", "cluster", f"brokers of {told}", "finish the upgrade")
    for broker in found[:1]:
        level = broker.features.get("transaction.version")
        if level is None:
            what = "the cluster does not tell its features"
            yield Finding("warn", "features", "cluster", what)
        elif level < 2:
            what = (
                f"transaction.version is {level}: a record that comes late may enter the next one"
            )
            fix = "kafka-features.sh upgrade --feature transaction.version=2"
            yield Finding("warn", "features", "cluster", what, fix)
        else:
            yield Finding("ok", "features", "cluster", f"transaction.version is {level}")


def topics(probe: Probe, names: Names) -> Iterator[Finding]:
    """What ``topics check`` says, and what loses committed records."""
    found = probe.topics(names.of(role) for role in ROLES)
    events = found.get(names.of("events"))
    wanted = specs(names, events.partitions if events else limits.PARTITIONS)
    different = differences(wanted, found)
    for one in different:
        yield Finding("fail" if one.fatal else "warn", "topic", one.topic, one.what, one.fix)
    for name, topic in found.items():
        if topic.settings.get("unclean.leader.election.enable") == "true":
            what = "unclean.leader.election.enable is true: committed records may be lost"
            yield Finding(
                "fail", "topic", name, what, _alter(name, "unclean.leader.election.enable=false")
            )
    if not different:
        yield Finding("ok", "topic", f"{names.prefix}*", f"{len(found)} topics, as they should be")


def _alter(name: str, setting: str) -> str:
    return (
        f"kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config {setting}"
    )


def copies(probe: Probe, names: Names) -> Iterator[Finding]:
    """Replicas of our topics and of Kafka's own that transactions rest on."""
    brokers = len(probe.brokers())
    ours = probe.topics(names.of(role) for role in ROLES)
    found = probe.copies([*ours, *INTERNAL])
    by_topic: dict[str, list[Copies]] = {}
    for one in found:
        by_topic.setdefault(one.topic, []).append(one)
    settings = {name: _least(topic) for name, topic in ours.items()}
    broker = probe.settings()
    settings["__consumer_offsets"] = _number(broker, "min.insync.replicas", 1)
    settings["__transaction_state"] = _number(broker, "transaction.state.log.min.isr", 1)
    fine = True
    for name, partitions in by_topic.items():
        for finding in _of_topic(name, partitions, settings.get(name, 1), brokers):
            fine = False
            yield finding
    if fine:
        least = min((one.replicas for one in found), default=0)
        what = (
            f"{plural(len(found), 'partition')} in sync, each on {plural(least, 'broker')} or more"
        )
        yield Finding("ok", "copies", "cluster", what)


def _of_topic(name: str, partitions: list[Copies], least: int, brokers: int) -> Iterator[Finding]:
    leaderless = [one.partition for one in partitions if one.leader < 0]
    if leaderless:
        what = f"partitions {_listed(leaderless)} have no leader"
        yield Finding("fail", "copies", name, what, "bring the brokers back that hold them")
    few = [one.partition for one in partitions if 0 < one.in_sync < least]
    if few:
        what = (
            f"partitions {_listed(few)} have fewer copies in sync than min.insync.replicas {least}"
        )
        yield Finding("fail", "copies", name, what, "bring the brokers back that hold them")
    behind = [one.partition for one in partitions if least <= one.in_sync < one.replicas]
    if behind:
        what = f"partitions {_listed(behind)} have copies that are not in sync"
        yield Finding("warn", "copies", name, what, "see `kafka-topics.sh --describe`")
    replicas = min(one.replicas for one in partitions)
    if replicas < min(COPIES, brokers):
        what = f"has {replicas} of {min(COPIES, brokers)} copies: a broker's disk is all there is"
        fix = "kafka-reassign-partitions.sh; new topics: `foldstream topics create --replication 3`"
        yield Finding("warn", "copies", name, what, fix)
    if least > replicas:
        what = f"min.insync.replicas is {least} with {replicas} copies: nothing can be written"
        yield Finding("fail", "copies", name, what, _alter(name, f"min.insync.replicas={replicas}"))
    elif replicas > 1 and least == replicas:
        what = f"min.insync.replicas is {least}, all there are: one broker away stops it"
        yield Finding(
            "warn", "copies", name, what, _alter(name, f"min.insync.replicas={replicas - 1}")
        )
    elif replicas >= COPIES and least < 2:
        what = f"min.insync.replicas is {least}: what one broker acknowledged may be lost with it"
        yield Finding("warn", "copies", name, what, _alter(name, "min.insync.replicas=2"))


def settings(probe: Probe) -> Iterator[Finding]:
    """The brokers' own, as far as transactions and offsets rest on them."""
    found = probe.settings()
    most = _number(found, "transaction.max.timeout.ms", 0)
    wanted = limits.TRANSACTION_TIMEOUT_MS
    if 0 < most < wanted:
        what = f"transaction.max.timeout.ms is {most}, workers need {wanted}"
        fix = _broker(f"transaction.max.timeout.ms={wanted}")
        yield Finding("fail", "transactions", "brokers", what, fix)
    expiry = _number(found, "transactional.id.expiration.ms", 7 * DAY_MS)
    if expiry < EXPIRY_DAYS * DAY_MS:
        what = f"transactional.id.expiration.ms is {span(expiry)}: a zombie older is not fenced"
        fix = _broker(f"transactional.id.expiration.ms={7 * DAY_MS}")
        yield Finding("warn", "transactions", "brokers", what, fix)
    if found.get("transaction.partition.verification.enable") == "false":
        what = "transaction.partition.verification.enable is false: transactions may hang"
        fix = _broker("transaction.partition.verification.enable=true")
        yield Finding("warn", "transactions", "brokers", what, fix)
    if most >= wanted and expiry >= EXPIRY_DAYS * DAY_MS:
        what = f"timeouts up to {span(most)}, ids kept for {span(expiry)}"
        yield Finding("ok", "transactions", "brokers", what)


def _broker(setting: str) -> str:
    return (
        f"kafka-configs.sh --alter --entity-type brokers --entity-default --add-config {setting} "
        "(or in server.properties)"
    )


def _least(topic: Found) -> int:
    return _number(topic.settings, "min.insync.replicas", 1)


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name) or ""
    return int(text) if text.lstrip("-").isdecimal() else default


def _listed(partitions: list[int]) -> str:
    some = ", ".join(map(str, partitions[:6]))
    return some if len(partitions) <= 6 else f"{some} and {len(partitions) - 6} more"


def _version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version[:2]))
