"""The door in: bytes of one log line or one record value → Event, Header or Fault.

Nothing that comes in raises. The fast reader takes what it is sure of (one typed pass, opaque JSON
as slices of the line); everything else is the exact reader's (projection.md §2, outputs.md).
"""

from __future__ import annotations

from operators.events import Line

from . import exact, fast


def read_line(line: bytes, seq: int | None = None) -> Line:
    """One JSON line of a log: header, event or packed chunk row.

    ``seq`` is given for a file in which *no* row has seq or seq0 (fixtures, session-log.md §1.7):
    the seq of this row, or of the first member of a packed one, as counted by the caller, who adds
    ``Event.count`` for the next. Such a row's time is 0 unless it has one.
    """
    found = fast.read(line, seq)
    return exact.read(line, seq) if found is None else found
