"""The log of every command, on standard error: lines of text or of JSON, with coordinates, without
secrets.

A line about a place says which: ``log.warning("…", extra=at(partition=3, offset=17))``. As text
that is appended (``… [partition=3 offset=17]``), as JSON each coordinate is a field of its own.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec

from .plain import steerless, visible, visible_line

MASK = "***"
CLIENT = "kafka"  #: the client library's loggers begin with this
SELDOM_S = 30.0  #: between two lines of the client's that say the same
PLACE = "place"  #: the attribute of a log record that holds its coordinates

Format: TypeAlias = Literal["text", "json"]

#: What is exchanged to authenticate: where no password stands in it, one may be guessed from it.
_EXCHANGED = re.compile(r"""(auth_bytes=)b?(['"]).*?\2(?=[,)])""")

#: All that goes over the wire, as the client shows it with ``debug``: credentials and records.
_WIRE = ("%s Send: %r", "%s Recv: %r")


def at(
    *,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    session: str | None = None,
    instance: str | None = None,
    generation: int | None = None,
) -> dict[str, Any]:
    """Coordinates of what a line is about, as a logger's ``extra``; those not given are left
    out."""
    given = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "session": session,
        "instance": instance,
        "generation": generation,
    }
    return {PLACE: {name: value for name, value in given.items() if value is not None}}


class Redaction:
    """Takes secrets out of text, in the forms in which a client prints them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {
            form
            for secret in secrets
            if secret
            for form in (secret, repr(secret)[1:-1], repr(secret.encode())[2:-1])
        }
        longest_first = sorted(forms, key=len, reverse=True)
        self._secret = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def __call__(self, text: str) -> str:
        text = _EXCHANGED.sub(rf"\1{MASK}", text)
        return text if self._secret is None else self._secret.sub(MASK, text)


class _Formatter(logging.Formatter):
    """What text and JSON share: the parts of a line, redacted. ``everywhere`` are coordinates of
    the whole process; a line of text, which is read where it was written, does without."""

    def __init__(self, redact: Redaction, everywhere: Mapping[str, Any]) -> None:
        super().__init__()
        self._redact = redact
        self.everywhere = everywhere

    def message(self, record: logging.LogRecord) -> str:
        return self._redact(record.getMessage())

    def place(self, record: logging.LogRecord) -> dict[str, Any]:
        place: dict[str, Any] = getattr(record, PLACE, {})
        return place

    def trace(self, record: logging.LogRecord) -> str:
        """A traceback, "" without one."""
        return self._redact(self.formatException(record.exc_info)) if record.exc_info else ""


class TextFormatter(_Formatter):
    """``2026-11-30 18:04:05,123 WARNING pipeline.loop: message [partition=3 offset=17]``; nothing
    in it steers a terminal or begins another line."""

    def format(self, record: logging.LogRecord) -> str:
        place = " ".join(f"{name}={value}" for name, value in self.place(record).items())
        message = self.message(record) + (f" [{place}]" if place else "")
        head = f"{self.formatTime(record)} {record.levelname} {record.name}: "
        trace = self.trace(record)
        return head + visible_line(message) + (f"\n{visible(trace)}" if trace else "")


class JsonFormatter(_Formatter):
    """One object per line: ``ts`` (UTC, RFC 3339), ``level``, ``logger``, ``message``, the
    coordinates, and ``exception`` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "ts": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _whole(self.message(record)),
        }
        for name, value in {**self.everywhere, **self.place(record)}.items():
            line[name] = _whole(value) if isinstance(value, str) else value
        if trace := self.trace(record):
            line["exception"] = _whole(trace)
        return steerless(msgspec.json.encode(line)).decode()


class ClientLog(logging.Filter):
    """The Kafka client's own log, as what it means here: it calls each lost connection an error and
    each reconnect a warning, and meets both whenever a broker restarts.

    Its errors come at ``errors``, its warnings as news, its news with ``debug``; the same line at
    most every half a minute, with the number left out; tracebacks with ``debug`` only; never what
    goes over the wire."""

    def __init__(self, threshold: int, errors: int) -> None:
        super().__init__()
        self._threshold = threshold
        self._errors = errors
        self._told: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != CLIENT and not record.name.startswith(f"{CLIENT}."):
            return True
        level = self._level(record.levelno)
        if level < self._threshold or record.msg in _WIRE:
            return False
        if self._threshold > logging.DEBUG:
            record.exc_info = record.exc_text = None
            if not self._due(record):
                return False
        record.levelno, record.levelname = level, logging.getLevelName(level)
        return True

    def _level(self, theirs: int) -> int:
        if theirs >= logging.ERROR:
            return self._errors
        return logging.INFO if theirs >= logging.WARNING else logging.DEBUG

    def _due(self, record: logging.LogRecord) -> bool:
        """Per place in the client's code: its messages carry ids and times that differ."""
        which = (record.name, f"{record.levelno}:{record.lineno}")
        now = time.monotonic()
        last, left_out = self._told.get(which, (-SELDOM_S, 0))
        if now - last < SELDOM_S:
            self._told[which] = (last, left_out + 1)
            return False
        self._told[which] = (now, 0)
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} more like it)", None
        return True


def setup(
    level: str,
    form: Format = "text",
    *,
    redact: Redaction | None = None,
    client_errors: int = logging.INFO,
    instance: str | None = None,
) -> logging.Handler:
    """Log to standard error, and nowhere else; called again, it takes the place of before."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    everywhere = at(instance=instance)[PLACE]
    kind = JsonFormatter if form == "json" else TextFormatter
    handler.setFormatter(kind(redact or Redaction(), everywhere))
    handler.addFilter(ClientLog(threshold, client_errors))
    logging.basicConfig(level=threshold, handlers=[handler], force=True)
    # What the filter would drop need not be made: its news come with every connection.
    theirs = logging.DEBUG if threshold == logging.DEBUG else logging.WARNING
    logging.getLogger(CLIENT).setLevel(theirs)
    return handler


def say(handler: logging.Handler, text: str, level: int = logging.INFO) -> None:
    """A line that a person was meant to read, in the form of the log, whatever its level is."""
    record = logging.LogRecord("foldstream", level, __file__, 0, text, None, None)
    handler.emit(record)


def _whole(text: str) -> str:
    """JSON takes no unpaired surrogate halves."""
    return text.encode("utf-8", "backslashreplace").decode()
