"""Simulated sessions: plausible, seeded, in every format shape; for demos, laws and benches.

>>> session = simulate(7, events=50, shape="v4")
>>> session.lines[0].startswith(b'{"type":"session","version":4')
True

``state.py``, ``turns.py``, ``steps.py``, ``compaction.py`` and ``asides.py`` are the conversation,
``writer.py``, ``shapes.py`` and ``packing.py`` say how each shape spells it; ``hostile.py`` has the
words, ``faults.py`` the damage, ``directory.py`` the files.
"""

from .directory import transcript_path, write_directory, write_session
from .faults import FAULTS, Damaged, Injected, inject
from .fleet import fleet
from .session import FEATURES, SHAPES, SimulatedSession, features_of, simulate
from .state import PORTABLE

__all__ = [
    "FAULTS",
    "FEATURES",
    "PORTABLE",
    "SHAPES",
    "Damaged",
    "Injected",
    "SimulatedSession",
    "features_of",
    "fleet",
    "inject",
    "simulate",
    "transcript_path",
    "write_directory",
    "write_session",
]
