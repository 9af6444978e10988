"""The outbound door: a change of the fold as key, headers and Avro value (streams.md §1).

Strings leave as UTF-8 whatever the log held: an unpaired surrogate half is U+FFFD (outputs.md §1).
Opaque JSON leaves as it came. A change of a session without an id (a file without a header) has
no place on a topic: ValueError.
"""

from __future__ import annotations

from functools import cache

from operators import changes
from operators.changes import Change, PartialText, SessionOverview, SurfaceChange, TranscriptRow

from .catalog import load
from .encoder import Encoder, compile_encoder, utf8
from .wire import single_object_prefix

KEY_SEPARATOR = b"\x1f"

_SUBJECTS: dict[type, str] = {
    SurfaceChange: "surface",
    TranscriptRow: "transcript",
    PartialText: "partials",
    SessionOverview: "overview",
}


def subject_of(change: Change) -> str:
    """The change's topic without its prefix. TypeError: a ``Refused`` goes to no output topic."""
    subject = _SUBJECTS.get(type(change))
    if subject is None:
        raise TypeError(f"a {type(change).__name__} is not written to an output topic")
    return subject


def encode(change: Change) -> bytes:
    """The change as Avro in single-object encoding, by the newest schema of its subject.

    Never fails on what a log may hold: a number beyond its Avro type is null where the field may
    be, else the type's bound."""
    subject = subject_of(change)
    session_of(change)
    strict, lenient = _writers(subject)
    try:
        return strict(change)
    except (UnicodeEncodeError, OverflowError):
        return lenient(change)


def key_of(change: Change) -> bytes:
    """The record's key: the session id; of a row, the session id, 0x1F and the row's key."""
    session = utf8(session_of(change))
    if isinstance(change, TranscriptRow):
        return session + KEY_SEPARATOR + utf8(change.key)
    return session


def headers_of(change: Change) -> list[tuple[str, bytes]]:
    """``session``, ``epoch`` and ``seq`` as text, in this order."""
    session = utf8(session_of(change))
    assert not isinstance(change, changes.Refused)
    return [
        ("session", session),
        ("epoch", b"%d" % change.epoch),
        ("seq", b"%d" % change.seq),
    ]


def session_of(change: Change) -> str:
    """The session id. ValueError: there is none; TypeError: a ``Refused``."""
    if isinstance(change, changes.Refused):
        raise TypeError("a Refused is not written to an output topic")
    if change.session is None:
        raise ValueError("a change without a session id cannot be published: the log has no header")
    return change.session


@cache
def _writers(subject: str) -> tuple[Encoder, Encoder]:
    """The strict and the lenient writer of a subject."""
    schema = load().latest(subject)
    prefix = single_object_prefix(schema.fingerprint)
    structs = {name: value for name, value in vars(changes).items() if isinstance(value, type)}
    return (
        compile_encoder(schema.source, structs, prefix=prefix),
        compile_encoder(schema.source, structs, prefix=prefix, lenient=True),
    )
