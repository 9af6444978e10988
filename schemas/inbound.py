"""The door in: bytes of one log line or one record value → Event, Header or Fault.

Nothing that comes in raises. The fast reader takes what it is sure of (one typed pass, opaque JSON
as slices of the line); everything else is the exact reader's (projection.md §2, outputs.md).
"""

from __future__ import annotations

from operators.events import Fault, Line

from . import exact, fast
from .codec import decode_session_line
from .errors import Refusal


def read_line(line: bytes, seq: int | None = None) -> Line:
    """One JSON line of a log: header, event or packed chunk row.

    ``seq`` is given for a file in which *no* row has seq or seq0 (fixtures, session-log.md §1.7):
    the seq of this row, or of the first member of a packed one, as counted by the caller, who adds
    ``Event.count`` for the next. Such a row's time is 0 unless it has one.
    """
    found = fast.read(line, seq)
    return exact.read(line, seq) if found is None else found


def read_value(value: bytes | None) -> Line:
    """An input record's value: the line's JSON, or Avro ``SessionLine`` in either framing
    (streams.md §1). A tombstone or an empty value is ``not-json``."""
    if not value:
        return Fault("not-json", "the record has no value: a session log line was expected")
    if value[:1] == b"{":
        return read_line(value)
    if value[:1] not in (b"\xc3", b"\x00"):
        return read_line(value)
    line = decode_session_line(value)
    return Fault(line.reason, line.message) if isinstance(line, Refusal) else read_line(line)
