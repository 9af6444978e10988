"""The door in: bytes of one log line or of one record's value → Event, Header or Fault.

Nothing that comes in raises. The fast reader takes what it is sure of (one typed pass, opaque JSON
as slices of the line); everything else is the exact reader's (projection.md §2, outputs.md).
"""

from __future__ import annotations

from xxhash import xxh3_64_intdigest

from operators.events import Fault, Line

from . import exact, fast
from .codec import Registry, decode_session_line
from .errors import Refusal


def read_line(line: bytes, seq: int | None = None) -> Line:
    """One JSON line of a log: header, event or packed chunk row.

    ``seq`` is given for a file in which *no* row has seq or seq0 (fixtures, session-log.md §1.7):
    the seq of this row, or of the first member of a packed one, as counted by the caller, who adds
    ``Event.count`` for the next. Such a row's time is 0 unless it has one.
    """
    found = fast.read(line, seq)
    return exact.read(line, seq) if found is None else found


def read_value(value: bytes | None, registry: Registry | None = None) -> Line:
    """The value of a record of ``sessions.events`` (streams.md §1): a JSON line, or an Avro
    ``SessionLine`` in single-object or, with a ``registry``, registry framing. A record without a
    value (a tombstone) is no line."""
    if not value:
        return Fault("not-json", "the record has no value")
    if value.startswith(b"{"):
        return read_line(value)
    line = decode_session_line(value, registry)
    if isinstance(line, Refusal):
        return Fault(line.reason, line.message, None, xxh3_64_intdigest(value))
    return read_line(line)
