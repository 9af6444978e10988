"""Names in a session root: how the harness spells ids, working directories and generations
(session-log.md §1.1)."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

Encoding: TypeAlias = Literal["raw", "zstd"]

NO_CWD = "_no-cwd"
_SLUG_UNITS = 251

_TRANSCRIPT = re.compile(r"session(?:\.v([1-9][0-9]*))?\.jsonl(\.zstd)?")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_SEPARATORS = re.compile(r"[/\\:]+")
_ENCODED = re.compile(r"(?:[A-Za-z0-9._-]|~[0-9A-F]{4})+")


class Transcript(Struct, frozen=True):
    """What a canonical file name says."""

    generation: int
    encoding: Encoding


def transcript(name: str) -> Transcript | None:
    """``session.jsonl`` (generation 0) or ``session.vN.jsonl``, each also with ``.zstd``; None for
    every other name, ``session.v0.jsonl`` and ``session.v04.jsonl`` among them."""
    match = _TRANSCRIPT.fullmatch(name)
    if match is None:
        return None
    return Transcript(int(match[1] or 0), "zstd" if match[2] else "raw")


def is_log(name: str) -> bool:
    """The files that are read at all (streams.md §3)."""
    return name.endswith((".jsonl", ".jsonl.zstd"))


def is_project(name: str) -> bool:
    return name == NO_CWD or (name.startswith("--") and name.endswith("--") and len(name) > 4)


def session_name(session: str) -> str:
    """The directory of a session id."""
    if session in (".", ".."):
        return "~002E" * len(session)
    return _escape(session)


def session_id(name: str) -> str | None:
    """The id a directory stands for; None if the harness would never have named it so."""
    if _ENCODED.fullmatch(name) is None:
        return None
    units = b"".join(
        int(part[1:], 16).to_bytes(2, "big") if part[0] == "~" else part.encode("utf-16-be")
        for part in re.findall(r"~[0-9A-F]{4}|.", name)
    )
    session = units.decode("utf-16-be", "surrogatepass")
    return session if session_name(session) == name else None


def project_name(cwd: str | None) -> str:
    """The directory of a working directory; lossy, and cut at 251 units (an escape may be cut)."""
    if cwd is None:
        return NO_CWD
    slug = _escape(_SEPARATORS.sub("-", cwd)).lstrip("-")[:_SLUG_UNITS]
    return f"--{slug or 'root'}--"


def _escape(text: str) -> str:
    return _UNSAFE.sub(_units, text)


def _units(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"~{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))
