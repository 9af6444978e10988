"""Simulated sessions as a harness leaves them on disk (session-log.md §1.1)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import zstandard

from schemas.names import project_name, session_name

from .session import SimulatedSession

_BATCH = 40  #: lines of one append batch, that is of one zstd frame


def write_directory(
    root: Path, sessions: Iterable[SimulatedSession], *, zstd: bool = False
) -> list[Path]:
    """Write the sessions below ``root``, raw or zstd; the paths of their transcripts."""
    return [write_session(root, session, zstd=zstd) for session in sessions]


def write_session(root: Path, session: SimulatedSession, *, zstd: bool = False) -> Path:
    """Write one transcript and return its path. A root should hold one encoding only."""
    path = transcript_path(root, session, zstd=zstd)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_frames(session.lines) if zstd else session.data)
    return path


def transcript_path(root: Path, session: SimulatedSession, *, zstd: bool = False) -> Path:
    """Where a harness keeps that session."""
    header = session.header
    folder = root / project_name(header.get("cwd")) / session_name(session.id)
    version = header["version"]
    name = "session.jsonl" if version == 0 else f"session.v{version}.jsonl"
    return folder / (f"{name}.zstd" if zstd else name)


def _frames(lines: list[bytes]) -> bytes:
    """The header in a frame of its own, then one frame per append batch, each with a checksum."""
    starts = [0, *range(1, len(lines), _BATCH)]
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    frames = [lines[a:b] for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]
    return b"".join(compressor.compress(b"\n".join([*frame, b""])) for frame in frames)
