"""A reader of the published changes: rebuilds rows, surface and overview from them alone.

What it does is what any client of the topics must do (projection.md §5.1 *While it streams*,
streams.md §4): upserts by key, partial text appended at its offset, sorted by anchor.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from operators.changes import (
    AssistantData,
    Change,
    PartialText,
    Refused,
    SessionOverview,
    SurfaceChange,
    TranscriptRow,
)

_HALF = re.compile("[\ud800-\udfff]")
_FIELDS = {"text": "text", "reasoning": "text", "tool-call": "arguments"}


class Reader:
    """State of one client of one session."""

    def __init__(self) -> None:
        self.by_key: dict[str, TranscriptRow] = {}
        self.nodes: list[int] = []
        self.shadowed: dict[int, list[int]] = {}
        self.generation = 0
        self.overview: SessionOverview | None = None
        self.refused: list[Refused] = []

    def apply(self, changes: Iterable[Change]) -> Reader:
        for change in changes:
            if isinstance(change, TranscriptRow):
                self.by_key[change.key] = change
            elif isinstance(change, PartialText):
                self._grow(change)
            elif isinstance(change, SurfaceChange):
                self._surface(change)
            elif isinstance(change, SessionOverview):
                self.overview = change
            else:
                self.refused.append(change)
        return self

    def _grow(self, partial: PartialText) -> None:
        row = self.by_key[partial.key]
        assert isinstance(row.data, AssistantData), partial
        assert row.data.status == "running", partial
        if partial.last_seq <= row.rev:
            return
        blocks = json.loads(bytes(row.data.blocks))
        # The row lists its blocks in index order without naming the indexes; soups use 0 and 1.
        at = min(partial.block, len(blocks) - 1)
        block = blocks[at]
        assert block["type"] == partial.block_type, (block, partial)
        field = _FIELDS[partial.block_type]
        text = block[field]
        if len(text) == partial.offset + 1 and _HALF.match(text[-1]):
            text = text[:-1]  # a half that waited for its other half, in a row that was published
        assert len(text) == partial.offset, (text, partial)
        block[field] = text + partial.text
        data = replace(row.data, blocks=Raw(dump(blocks)))
        last = partial.last_seq
        self.by_key[partial.key] = replace(row, data=data, rev=last, seq=last)

    def _surface(self, change: SurfaceChange) -> None:
        if change.op == "reset":
            self.nodes, self.shadowed = [], {}
        elif change.op != "amend":
            gone = set(change.shadowed)
            assert [n for n in self.nodes if n in gone] == list(change.shadowed), change
            at = change.position
            self.nodes = [n for n in self.nodes if n not in gone]
            self.nodes.insert(at, change.seq)
            if change.op == "replace":
                self.shadowed[change.seq] = list(change.shadowed)
        self.generation = change.generation

    def rows(self) -> list[TranscriptRow]:
        """The rows that are left, in transcript order."""
        alive = [row for row in self.by_key.values() if not row.deleted]
        return sorted(alive, key=lambda row: (row.anchor_seq, row.anchor_rank, row.key))


def dump(value: Any) -> bytes:
    """JSON as the fold writes gathered blocks; a lone half as its escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _HALF.sub(lambda half: f"\\u{ord(half.group()):04x}", text).encode()


def encoded(rows: Iterable[TranscriptRow]) -> list[bytes]:
    """Rows as comparable bytes. Of a running row's text an unpaired half is U+FFFD, and one at the
    end is not there yet (law 1's exception)."""
    return [msgspec.json.encode(_plain(row)) for row in rows]


def _plain(row: TranscriptRow) -> TranscriptRow:
    data = row.data
    if not isinstance(data, AssistantData) or data.status != "running":
        return row
    blocks = json.loads(bytes(data.blocks))
    for block in blocks:
        field = _FIELDS.get(block.get("type"), "")
        if isinstance(block.get(field), str):
            block[field] = _HALF.sub("\ufffd", block[field]).rstrip("\ufffd")
    return replace(row, data=replace(data, blocks=Raw(dump(blocks))))
