"""The golden cases: folders ``<group>/<name>`` with a log and the right outputs beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SAMPLE = HERE / "sample"
GOLDEN = Path(os.environ.get("FOLDSTREAM_GOLDEN") or HERE.parents[2] / "shared" / "golden")


@dataclass(frozen=True)
class Case:
    folder: Path

    @property
    def group(self) -> str:
        return self.folder.parent.name

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def id(self) -> str:
        return f"{self.group}/{self.name}"

    def __str__(self) -> str:
        return self.id

    def has(self, kind: str) -> bool:
        return (self.folder / f"{kind}.json").exists()

    def read(self, kind: str) -> Any:
        """The parsed ``<kind>.json``."""
        return json.loads((self.folder / f"{kind}.json").read_text("utf-8", "surrogatepass"))

    @cached_property
    def header(self) -> dict[str, Any] | None:
        """The log header, which the golden data keep beside the log."""
        told = self.read("meta").get("header") if self.has("meta") else None
        return told if told and told.get("type") == "session" else None

    @cached_property
    def version(self) -> int:
        """The format generation: 0, 2, 3 or 4."""
        tail = self.group.rpartition("_v")[2]
        return int(tail) if tail.isdigit() else 0

    @cached_property
    def body(self) -> list[bytes]:
        """The log's lines without a header."""
        raw = (self.folder / "log.jsonl").read_bytes()
        return [line for line in raw.split(b"\n") if line.strip()]

    @cached_property
    def lines(self) -> list[bytes]:
        """The log as a file would hold it: header first, where there is one."""
        if self.header is None:
            return self.body
        return [json.dumps(self.header).encode(), *self.body]

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The log's events as plain values."""
        return [json.loads(line) for line in self.body]


def find(root: Path, group: str | None = None, case: str | None = None) -> Iterator[Case]:
    """All cases under ``root``; ``group`` is a group's exact name, ``case`` a part of the name."""
    for folder in sorted(root.glob("*/*")):
        wanted = (group is None or folder.parent.name == group) and (case or "") in folder.name
        if wanted and (folder / "log.jsonl").exists():
            yield Case(folder)
