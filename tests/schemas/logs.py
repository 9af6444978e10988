"""Logs as the harness writes them, made by hand for the tests of the readers."""

from __future__ import annotations

import json
from typing import Any

import zstandard


def line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def header(session: str = "s", version: int = 4, **more: Any) -> bytes:
    base: dict[str, Any] = {"type": "session", "version": version, "id": session, "createdAt": 7}
    if version >= 2:
        base["isSeeded"] = False
    return line({**base, "delegationDepth": 0, **more})


def row(seq: int, kind: str = "todo/write", **more: Any) -> bytes:
    return line({"type": kind, "seq": seq, "time": seq * 10, "data": {}, **more})


def turns(count: int = 2, version: int = 4, session: str = "s", cwd: str = "/b") -> list[bytes]:
    """A header and ``count`` turns of three rows; the last row is a ``turn/end``."""
    kinds = ["turn/start", "todo/write", "turn/end"] * count
    rows = [row(seq, kind) for seq, kind in enumerate(kinds)]
    return [header(session, version, cwd=cwd), *rows]


def raw(lines: list[bytes]) -> bytes:
    return b"".join(entry + b"\n" for entry in lines)


def frame(data: bytes, *, checksum: bool = True, level: int = 3) -> bytes:
    return zstandard.ZstdCompressor(level=level, write_checksum=checksum).compress(data)


def zstd(lines: list[bytes], batch: int = 3) -> bytes:
    """The header's frame, then one frame per batch."""
    batches = [lines[:1], *(lines[at : at + batch] for at in range(1, len(lines), batch))]
    return b"".join(frame(raw(entry)) for entry in batches)
