"""How far an ingest is."""

from __future__ import annotations

from msgspec import Struct


class Progress(Struct):
    """Counts so far: ``sessions`` seen, ``unreadable`` of them (wholly or from some byte on), lines
    ``sent`` and their ``bytes``, lines ``known`` to be there already, ``dead_letters`` made,
    ``epochs`` begun anew."""

    sessions: int = 0
    unreadable: int = 0
    sent: int = 0
    bytes: int = 0
    known: int = 0
    dead_letters: int = 0
    epochs: int = 0
