"""Transactions that hold readers up: overdue ones, and those that nobody will end (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline import limits
from pipeline.topics import ROLES, Names

from .facts import Finding, Open, Probe, Transaction, span

GRACE_MS = 15_000
"""Beyond its timeout: the coordinator looks for overdue ones every ten seconds by default, and then
its markers have to be written."""


def hanging(probe: Probe, names: Names, bootstrap: str, now_ms: int) -> Iterator[Finding]:
    """Every transaction that a partition of ours holds open, by what its coordinator says of it."""
    ours = probe.topics(names.of(role) for role in ROLES)
    found = probe.open_transactions(ours)
    known = {one.producer: one for one in probe.transactions(names)}
    fine = True
    for one in found:
        finding = _judged(one, known.get(one.producer), names, (bootstrap, now_ms))
        if finding is not None:
            fine = False
            yield finding
    for each in known.values():
        overdue = now_ms - each.started_ms - each.timeout_ms - GRACE_MS
        if each.ongoing and each.started_ms > 0 and overdue > 0:
            fine = False
            what = f"is {each.state} for {span(now_ms - each.started_ms)}, longer than its timeout"
            fix = "see its coordinator's log; a restart of its worker ends it"
            yield Finding("fail", "hanging", f"transactional id {each.id}", what, fix)
    if fine:
        running = f", {len(found)} under way" if found else ""
        yield Finding("ok", "hanging", f"{names.prefix}*", f"no transaction hangs{running}")


def _judged(
    one: Open, known: Transaction | None, names: Names, place: tuple[str, int]
) -> Finding | None:
    """``place``: the brokers' address and the time."""
    bootstrap, now_ms = place
    at = f"{one.topic}[{one.partition}]"
    since = now_ms - one.last_ms
    if known is not None and known.ongoing and (one.topic, one.partition) in known.partitions:
        return None  # under way; whether it is overdue is asked of its coordinator's own time
    if since < limits.TRANSACTION_TIMEOUT_MS + GRACE_MS:
        return None  # it may have ended between the two looks
    whose = "nobody's any more" if known is None else f"of {known.id}, for whom it is over"
    what = f"a transaction is open since offset {one.start}, {span(since)} ago, and is {whose}"
    abort = (
        f"kafka-transactions.sh --bootstrap-server {bootstrap} abort --topic {one.topic} "
        f"--partition {one.partition} --start-offset {one.start}"
    )
    prefix = f"{names.application}-"
    if known is not None and known.id.startswith(prefix):
        instance = known.id.removeprefix(prefix)
        abort = f"start the worker with --instance {instance} again, which ends it; or {abort}"
    return Finding("fail", "hanging", at, what, abort)
