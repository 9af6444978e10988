"""One case, compared: what of ours stands against which golden file.

``KINDS`` names every golden file that is compared and the function that does it; a case has those
whose file lies in its folder. Only public documents are read: ``fold --json`` and ``pages --json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any

from pipeline.documents import fold_lines
from tests.golden import (
    classification,
    history,
    newest_n,
    overview,
    pins,
    readers_figures,
    readers_projections,
    rows,
    surface,
    transcript_t,
    verdicts,
)
from tests.golden.cases import Case
from tests.golden.model import Model
from tests.golden.values import Finding

Node = dict[str, Any]


class Subject:
    """A case with our documents of it, each folded once."""

    def __init__(self, case: Case) -> None:
        self.case = case

    @cached_property
    def doc(self) -> Node:
        return self.fold()

    @cached_property
    def model(self) -> Model:
        return Model(self.case.events, self.case.version)

    def fold(self, lines: list[bytes] | None = None, **options: Any) -> Node:
        document = fold_lines(self.case.lines if lines is None else lines, **options)
        told: Node = json.loads(document)
        return told

    def read(self, kind: str) -> Any:
        return self.case.read(kind)


def s(subject: Subject) -> list[Finding]:
    found = surface.compare(subject.read("surface"), subject.doc, subject.model)
    return found + surface.counted(subject.doc, subject.model)


def q(subject: Subject) -> list[Finding]:
    return classification.compare(subject.read("classification"), subject.doc)


def p(subject: Subject) -> list[Finding]:
    return history.compare(subject.read("history"), subject.case.lines)


def t(subject: Subject) -> list[Finding]:
    found = transcript_t.compare(subject.read("transcript"), subject.doc, subject.model)
    return found + rows.sane(subject.doc)


def n(subject: Subject) -> list[Finding]:
    golden = subject.read("transcript_newest")
    found = newest_n.compare(golden, subject.doc, subject.model) + rows.sane(subject.doc)
    return found + pins.check(subject.case.id, subject.doc)


def o(subject: Subject) -> list[Finding]:
    golden, events, body = subject.read("readers"), subject.model.events, subject.case.body
    found = overview.compare(golden, subject.doc, events, subject.case.header)
    found += readers_figures.compare(golden, body)
    return found + readers_projections.compare(golden, body)


def windows(subject: Subject) -> list[Finding]:
    """Every suffix of the log, folded from its cut on."""
    found: list[Finding] = []
    for window in subject.read("windows")["windows"]:
        rest = subject.case.events[window["cut"] :]
        model = Model(rest, subject.case.version)
        doc = subject.fold(from_seq=model.events[0].seq)
        told = transcript_t.compare(window, doc, model)
        told += newest_n.compare(window["newest"], doc, model)
        told += rows.sane(doc)
        found += [labelled(f"from {window['cut']}", f) for f in told]
    return found


def prefixes(subject: Subject) -> list[Finding]:
    """The state after the first so many events."""
    found: list[Finding] = []
    for prefix in subject.read("prefixes")["prefixes"]:
        length = prefix["length"]
        model = Model(subject.case.events[:length], subject.case.version)
        doc = subject.fold(to_seq=model.events[-1].seq)
        told = surface.nodes_only(prefix["surfaceNodes"], doc, "S")
        told += transcript_t.prefix(prefix, doc, model)
        found += [labelled(f"first {length}", f) for f in told]
    return found


def repair(subject: Subject) -> list[Finding]:
    """Closers, once written, fold to the surface that the reference sees after them."""
    found: list[Finding] = []
    skip = len(subject.case.lines) - len(subject.case.body)
    for cut in subject.read("repair")["cuts"]:
        if "closers" not in cut:  # the reference threw
            continue
        closers = [json.dumps(closer).encode() for closer in cut["closers"]]
        doc = subject.fold(subject.case.lines[: skip + cut["prefix"]] + closers)
        told = surface.nodes_only(cut["surfaceNodesAfter"], doc, "S")
        found += [labelled(f"first {cut['prefix']} closed", f) for f in told]
    return found


def verdict(subject: Subject) -> list[Finding]:
    strict = subject.fold(strict=True)
    golden = subject.read("verdict")
    return verdicts.compare(golden, strict, subject.doc, subject.case.events)


def labelled(where: str, finding: Finding) -> Finding:
    values = finding.golden, finding.ours, finding.reason, finding.expected
    return Finding(f"{where}: {finding.where}", *values)


KINDS: dict[str, Callable[[Subject], list[Finding]]] = {
    "surface": s,
    "classification": q,
    "history": p,
    "transcript": t,
    "transcript_newest": n,
    "windows": windows,
    "prefixes": prefixes,
    "repair": repair,
    "readers": o,
    "verdict": verdict,
}


def compare(case: Case, kind: str, subject: Subject | None = None) -> list[Finding]:
    """Findings of one golden file; an exception out of the fold is one too."""
    return KINDS[kind](subject or Subject(case))
