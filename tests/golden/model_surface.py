"""The model's surface fold: node list, replacements, and the first fault of an event (§4)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.golden import model_log
from tests.golden.model_log import KNOWN, SURFACE, Ev
from tests.golden.values import same

NOT_FOUND = ("replace-start-not-found", "replace-end-not-found")


def ranges(raw: Any) -> tuple[str | None, list[tuple[int, int]]]:
    """Fault of a source list by itself, and its members as ranges."""
    if not isinstance(raw, list):
        return "sources-not-array", []
    found: list[tuple[int, int]] = []
    for item in raw:
        ends = (
            [model_log.seq(n) for n in item]
            if isinstance(item, list)
            else [model_log.seq(item)] * 2
        )
        if len(ends) != 2 or ends[0] is None or ends[1] is None or ends[0] > ends[1]:
            return "sources-element", found
        found.append((ends[0], ends[1]))
    ordered = sorted(found)
    twice = any(b[0] <= a[1] for a, b in pairwise(ordered))
    return ("sources-duplicate" if twice else None), found


@dataclass
class Surface:
    """``take`` gives the reason code of the first fault, or None after applying the event."""

    nodes: list[int] = field(default_factory=list)
    replacements: list[dict[str, Any]] = field(default_factory=list)
    events: dict[int, Ev] = field(default_factory=dict)
    head: int | None = None

    @property
    def generation(self) -> int:
        return len(self.replacements)

    def take(self, ev: Ev) -> str | None:
        fault = self.fault(ev)
        if fault is not None:
            return fault
        self.events[ev.seq] = ev
        if ev.append:
            if not self.nodes and ev.type == "system/message" and not self.replacements:
                self.head = ev.seq
            self.nodes.append(ev.seq)
        elif ev.replaces:
            start, end = (self.nodes.index(n) for n in ev.op)
            gone = self.nodes[start : end + 1]
            self.nodes[start : end + 1] = [ev.seq]
            if self.head in gone:
                self.head = ev.seq
            landed = {"seq": ev.seq, "start": ev.op[0], "end": ev.op[1], "shadowed": gone}
            self.replacements.append(landed)
        return None

    def fault(self, ev: Ev) -> str | None:
        if ev.type not in SURFACE:
            return self._log_only(ev)
        if "surfaceOp" not in ev.raw:
            return "surfaceop-missing"
        if ev.op == "bad":
            replace = isinstance(ev.raw["surfaceOp"], dict)
            return "surfaceop-invalid-replace" if replace else "surfaceop-invalid"
        gone: list[int] = []
        if ev.replaces:
            for end, code in zip(ev.op, NOT_FOUND, strict=True):
                if end not in self.nodes:
                    return code
            first, last = (self.nodes.index(n) for n in ev.op)
            if first > last:
                return "replace-start-after-end"
            gone = self.nodes[first : last + 1]
        return self._sources(ev, gone) or (self._rewrite(ev, gone) if gone else None)

    def _log_only(self, ev: Ev) -> str | None:
        if ev.type not in KNOWN and ev.raw.get("ignorable") is True:
            return None
        if "surfaceOp" in ev.raw:
            return "surfaceop-on-log-only"
        return "sources-on-log-only" if "sourceEventSeqs" in ev.raw else None

    def _sources(self, ev: Ev, gone: list[int]) -> str | None:
        found: list[tuple[int, int]] = []
        if "sourceEventSeqs" in ev.raw:
            raw = ev.raw["sourceEventSeqs"]
            if raw == [] and ev.type != "assistant/message":
                return "sources-empty"
            fault, found = ranges(raw)
            if fault is not None:
                return fault
            if any(last >= ev.seq for _, last in found):
                return "sources-not-earlier"
        missing = [n for n in gone if not any(a <= n <= b for a, b in found)]
        return "sources-missing-shadowed" if missing else None

    def _rewrite(self, ev: Ev, gone: list[int]) -> str | None:
        if ev.type == "tool/result":
            if len(gone) != 1:
                return "rewrite-not-one-node"
            target = self.events[gone[0]]
            if target.type != "tool/result":
                return "rewrite-wrong-target"
            if not same(identity(target), identity(ev)):
                return "rewrite-changes-more"
        protected = self.head is not None and self.head in gone
        alone = ev.type == "system/message" and len(gone) == 1
        return "head-protected" if protected and not alone else None


def identity(ev: Ev) -> Any:
    """A result without the content that a rewrite may change."""
    data = json.loads(json.dumps(ev.raw.get("data")))
    if not isinstance(data, dict):
        return data
    told = data.get("message")
    if not isinstance(told, dict):
        data.pop("content", None)
        return data
    if told.get("role") == "tool" or not isinstance(told.get("content"), list):
        told.pop("content", None)
        return data
    first = told["content"][0] if told["content"] else None
    if isinstance(first, dict) and first.get("type") == "tool-result":
        first.pop("content", None)
        told["content"] = [first]
    else:
        told.pop("content", None)
    return data


def verdict(raws: list[dict[str, Any]], strict_types: bool) -> tuple[int, str | None, Surface]:
    """A strict run: events accepted, reason of the first refusal, the surface before it.

    ``strict_types``: also refuse an unknown type that is not ignorable."""
    surface = Surface()
    for index, raw in enumerate(raws):
        kind, own = raw.get("type"), model_log.seq(raw.get("seq"))
        if not isinstance(kind, str) or not kind:
            return index, "type-invalid", surface
        if own is None:
            return index, "seq-invalid", surface
        if own != index:
            return index, "seq-not-contiguous", surface
        ev = model_log.read(raw)
        fault = surface.take(ev)
        if fault is not None:
            return index, fault, surface
        unknown = ev.type not in KNOWN and raw.get("ignorable") is not True
        if strict_types and unknown:
            return index, "unknown-required-event", surface
    return len(raws), None, surface
