"""``history.json``: events pages walked backwards, and single pages from anywhere."""

from __future__ import annotations

import json
from typing import Any

from pipeline.documents import pages_lines
from tests.golden.values import Finding, check

Node = dict[str, Any]
NAMES = {
    "first": "first",
    "last": "last",
    "count": "count",
    "appendMessages": "append_messages",
    "hasMore": "has_more",
}


def compare(golden: Node, lines: list[bytes]) -> list[Finding]:
    found: list[Finding] = []
    for budget, pages in golden["pages"].items():
        wanted = [{"before": p["beforeSeq"], **view(p)} for p in pages]
        found += check(f"P by {budget}", wanted, walk(lines, int(budget), None))
    for probe in golden["probes"]:
        page = walk(lines, probe["maxMessages"], probe["beforeSeq"])[0]
        told = view(probe)
        where = f"P before {probe['beforeSeq']} by {probe['maxMessages']}"
        found += check(where, told, {name: page[name] for name in told})
    return found


def view(page: Node) -> Node:
    return {ours: page[name] for name, ours in NAMES.items() if name in page}


def walk(lines: list[bytes], budget: int, before: int | None) -> list[Node]:
    return [json.loads(page) for page in pages_lines(lines, before=before, max_messages=budget)]
