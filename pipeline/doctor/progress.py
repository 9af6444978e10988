"""The group, its offsets, and what holds it up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pipeline.topics import Names

from .facts import DAY_MS, HOUR_MS, Finding, Group, Level, Offsets, Probe, plural, span

SOON_MS = DAY_MS  #: within which a record may not expire unfolded without a word
MOST = 6  #: partitions named one by one
LOOKS = 5  #: at partitions that do not move


def group(probe: Probe, names: Names) -> Iterator[Finding]:
    """Its state, its members, and partitions that nobody has."""
    found = probe.group(names.application)
    where = f"group {names.application}"
    offsets = probe.offsets(names.application, names.of("events"))
    lag = sum(one.lag for one in offsets.values())
    if not found.members:
        yield _nobody(where, found, lag)
        return
    if found.state != "Stable":
        what = f"is dealing out partitions ({found.state})"
        fix = "look again in a minute; if it stays, see the workers' logs"
        yield Finding("warn", "group", where, what, fix)
        return
    held = {partition for member in found.members for partition in member.partitions}
    free = sorted(offsets.keys() - held)
    if free:
        fix = "see the workers' logs, and restart those that hold nothing"
        yield Finding("fail", "group", where, f"nobody has partitions {_some(free)}", fix)
    idle = [member for member in found.members if not member.partitions]
    if idle:
        what = f"{plural(len(idle), 'member')} without partitions, e.g. {idle[0].client}"
        fix = f"no more than {len(offsets)} workers find work; the others stand by"
        yield Finding("warn", "group", where, what, fix)
    if not free:
        what = (
            f"{plural(len(found.members), 'member')} have all {plural(len(offsets), 'partition')}"
        )
        yield Finding("ok", "group", where, what)


def _nobody(where: str, found: Group, lag: int) -> Finding:
    if not lag:
        return Finding("ok", "group", where, f"no worker runs ({found.state}); all is folded")
    what = f"no worker runs ({found.state}), and {plural(lag, 'record')} wait"
    return Finding("warn", "group", where, what, "start one: `foldstream run`")


def offsets(probe: Probe, names: Names, now_ms: int) -> Iterator[Finding]:
    """Whether what is committed still stands on the topic, and for how long."""
    topic = names.of("events")
    found = probe.offsets(names.application, topic)
    fine = True
    for partition, one in sorted(found.items()):
        at = f"{topic}[{partition}]"
        if one.committed is not None and one.committed > one.end:
            fine = False
            what = f"offset {one.committed} is committed, and the topic ends at {one.end}"
            fix = "it was made anew: see the runbook, *A topic made anew*"
            yield Finding("fail", "offsets", at, what, fix)
        elif one.committed is not None and one.committed < one.begin:
            fine = False
            what = f"{one.begin - one.committed} records expired before they were folded"
            fix = "see the runbook, *Records that expired*; raise retention.ms, run more workers"
            yield Finding("fail", "offsets", at, what, fix)
    retention = _retention(probe, topic)
    if retention is not None:
        for finding in _leaving(probe, topic, found, (retention, now_ms)):
            fine = False
            yield finding
    if fine:
        kept = "for ever" if retention is None else f"for {span(retention)}"
        yield Finding(
            "ok", "offsets", topic, f"all committed offsets stand; records are kept {kept}"
        )
    yield from _forgotten(probe, names)


def _retention(probe: Probe, topic: str) -> int | None:
    """Milliseconds that records are kept; None: for ever, as far as time goes."""
    found = probe.topics([topic]).get(topic)
    text = found.settings.get("retention.ms", "-1") if found else "-1"
    return int(text) if text.isdecimal() else None


def _leaving(
    probe: Probe, topic: str, found: Mapping[int, Offsets], times: tuple[int, int]
) -> Iterator[Finding]:
    """Records that wait and will expire soon. ``times``: retention and now."""
    retention, now_ms = times
    for partition, one in sorted(found.items()):
        if one.lag <= 0:
            continue
        start = max(one.begin, one.committed or one.begin)
        stamp = probe.stamp(topic, partition, start)
        if stamp is None:
            continue
        left = stamp + retention - now_ms
        if left < min(SOON_MS, retention // 2):
            level: Level = "fail" if left < HOUR_MS else "warn"
            what = f"the next record to fold (offset {start}) expires in {span(max(0, left))}"
            fix = "run more workers, or raise retention.ms on this topic now"
            yield Finding(level, "retention", f"{topic}[{partition}]", what, fix)


def _forgotten(probe: Probe, names: Names) -> Iterator[Finding]:
    """The offsets of a group without members are dropped one day."""
    if probe.group(names.application).members:
        return
    minutes = probe.settings().get("offsets.retention.minutes", "")
    if minutes.isdecimal():
        kept = span(int(minutes) * 60_000)
        what = f"no worker runs: the broker forgets its offsets after {kept} without one"
        fix = "start a worker in time, or raise offsets.retention.minutes"
        yield Finding("warn", "offsets", f"group {names.application}", what, fix)


def lag(probe: Probe, names: Names, pause: Callable[[], None]) -> Iterator[Finding]:
    """What waits, and partitions that do not move however often one looks: a worker with a backlog
    takes its partitions in turn."""
    topic = names.of("events")
    first = now = probe.offsets(names.application, topic)
    running = bool(probe.group(names.application).members)
    still = {at for at, one in first.items() if one.lag} if running else set()
    for _ in range(LOOKS):
        if not still:
            break
        pause()
        now = probe.offsets(names.application, topic)
        still = {at for at in still if now[at].lag and now[at].committed == first[at].committed}
    for at in sorted(still):
        one = now[at]
        held = f", an open transaction holds it at {one.stable}" if one.stable < one.end else ""
        what = f"{plural(one.lag, 'record')} wait and nothing was committed meanwhile{held}"
        fix = "see the log of the worker that has it, and restart that worker"
        yield Finding("warn", "stuck", f"{topic}[{at}]", what, fix)
    total = sum(one.lag for one in now.values())
    if not total:
        yield Finding("ok", "lag", topic, "all is folded")
        return
    worst = sorted(now, key=lambda at: -now[at].lag)[:MOST]
    told = ", ".join(f"[{at}] {now[at].lag}" for at in worst if now[at].lag)
    level: Level = "ok" if running else "warn"
    yield Finding(level, "lag", topic, f"{plural(total, 'record')} wait: {told}")


def _some(partitions: list[int]) -> str:
    some = ", ".join(map(str, partitions[:MOST]))
    return some if len(partitions) <= MOST else f"{some} and {len(partitions) - MOST} more"
