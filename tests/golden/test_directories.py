"""Session roots as the released harness leaves them, good and damaged, against its own reader.

Every session of every ``expected.json`` must be *equal* (events, hashes, header), *refused alike*,
or *opened with a report*: what the harness refuses is opened, and the damage is said. What is none
of the three fails, and so does a report about a log that the harness reads. The table is printed
with ``-s``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from operators.session import Out, Session
from schemas.directory import Problem, Scan, scan
from schemas.inbound import read_line
from schemas.jsonl import Damage, LogFile, open_log
from tests.golden.decoded import digest, events
from tests.golden.roots import MARKS, ROOTS, name_of, native

pytestmark = MARKS

#: Where our right value is another one than the writing release's, and why it stands.
DELIBERATE = {
    "negative-zero-seq": "-0 is 0 (projection.md §2); 0.2.1rc2 reads the log too",
}


EXPLAINED = ("equal", "refused alike", "opened, reported", "deliberate")


class Read(Struct):
    """What we make of one file: its events, and what reading them for the fold reports."""

    path: Path
    log: LogFile
    rows: list[dict[str, Any]]
    folds: list[str]


def read(path: Path) -> Read:
    log = open_log(path)
    body = [line.raw for line in log.lines if line.count]
    return Read(path, log, list(events(body)), _reports(body))


def _reports(body: list[bytes]) -> list[str]:
    """What the fold says about the lines, and refuses."""
    session, out = Session(None), Out()
    for raw in body:
        session.take(read_line(raw), out)
    reasons = list(dict.fromkeys(refused.reason for refused in out.refused))
    unknown = "unknown_required_event"
    return [*reasons, *([unknown] if unknown in session.overview().quality else [])]


def header_of(ours: Read) -> dict[str, Any]:
    """The logical header (README of the data): ``isSeeded`` also where the file counts instead."""
    raw = ours.log.header or {}
    keys = ("version", "id", "createdAt", "cwd", "parentSession", "isSeeded", "origin")
    logical = {key: raw[key] for key in (*keys, "delegationDepth", "agentPreset") if key in raw}
    return {**logical, "isSeeded": raw.get("isSeeded", "seedLength" in raw)}


def inherited(ours: Read) -> int:
    raw = ours.log.header or {}
    if raw.get("version") in (0, 1):
        return int(raw.get("seedLength", 0))
    seeds = [row for row in ours.rows if row["type"] == "session/end-seed"]
    tagged = [row["seq"] for row in seeds if row["data"].get("inherited") is True]
    return int(tagged[-1]) if tagged else 0


def differences(ours: Read, says: dict[str, Any]) -> list[str]:
    """What of the release's figures is another one here; those it does not give are not asked."""
    figures = {
        "events": len(ours.rows),
        "sha256": digest(ours.rows),
        "sha256Sorted": digest(ours.rows, ordered=True),
        "header": header_of(ours),
        "inheritedEventCount": inherited(ours),
    }
    given = figures.keys() & says.keys()
    return [f"{key}: {figures[key]} != {says[key]}" for key in given if figures[key] != says[key]]


def judge(root: Path, expected: dict[str, Any], where: str, found: Scan) -> str:
    """The class of one session, or what is unexplained about it."""
    says = expected["sessions"][where]
    folder = root / "root" / where
    problems = problems_of(found, folder, says["id"], whole=not expected.get("isolated"))
    mine = [entry for entry in found.sessions if entry.path.parent == folder]
    if not mine:
        refused = not native(expected, says, "").get("loads") and problems
        return f"refused alike: {codes(problems)}" if refused else "not found"
    ours = read(mine[0].path)
    verdict = native(expected, says, ours.path.name)
    wrong = differences(ours, verdict) if ours.rows or verdict["loads"] else []
    reports = codes(problem for problem in problems if problem.fatal)
    reports += codes(damage for damage in ours.log.damage if damage.fatal)
    reports += ours.folds
    if wrong:
        return "; ".join(wrong)
    if folder.name in DELIBERATE and not verdict["loads"] and not reports:
        return f"deliberate: {DELIBERATE[folder.name]}"
    if verdict["loads"] != bool(reports):
        return "equal" if verdict["loads"] else f"opened, reported: {', '.join(reports)}"
    by = says.get("readBy", {}).values()
    if reports and any(not other["loads"] for other in by):
        return f"equal, reported for later releases: {', '.join(reports)}"
    return f"false alarm: {reports}" if reports else "opened without a report"


def problems_of(found: Scan, folder: Path, session: str, *, whole: bool) -> list[Problem]:
    """The problems of one session directory, and (``whole``) those of its root."""
    return [
        problem
        for problem in found.problems
        if folder in (problem.path, problem.path.parent)
        or (problem.session == session and problem.code == "duplicate-id")
        or (whole and problem.code in ("mixed-encoding", "flat-file"))
    ]


def codes(entries: Iterable[Problem | Damage]) -> list[str]:
    return list(dict.fromkeys(entry.code for entry in entries))


@pytest.mark.parametrize("root", ROOTS, ids=name_of)
def test_every_session_is_read_as_the_harness_reads_it(root: Path) -> None:
    expected = json.loads((root / "expected.json").read_text("utf-8"))
    found = scan(root / "root")
    table = {where: judge(root, expected, where, found) for where in expected["sessions"]}
    kinds = Counter(result.partition(":")[0] for result in table.values())
    lines = [f"  {where.rpartition('/')[2]:40} {result}" for where, result in table.items()]
    print(f"\n{name_of(root)}: {dict(kinds)}", *lines, sep="\n")  # noqa: T201
    assert found.harness
    unexplained = {
        where: result for where, result in table.items() if not result.startswith(EXPLAINED)
    }
    assert not unexplained


@pytest.mark.parametrize("root", ROOTS, ids=name_of)
def test_every_generation_alone_is_read_as_its_release_reads_it(root: Path) -> None:
    expected = json.loads((root / "expected.json").read_text("utf-8"))
    for where, says in expected["sessions"].items():
        for name, alone in says.get("generations", {}).items():
            ours = read(root / "root" / where / name)
            assert not differences(ours, alone), (where, name)
            assert bool(codes(ours.log.damage)) == ("error" in alone)


@pytest.mark.parametrize("root", ROOTS, ids=name_of)
def test_a_root_lists_the_same_sessions_or_says_what_the_harness_refuses(root: Path) -> None:
    expected = json.loads((root / "expected.json").read_text("utf-8"))
    found = scan(root / "root")
    lists = expected["list"]
    for listing in [lists] if "ids" in lists or "error" in lists else lists.values():
        if "error" in listing:
            assert any(problem.fatal for problem in found.problems), listing["error"]
        else:
            assert sorted(entry.session for entry in found.sessions) == sorted(listing["ids"])
