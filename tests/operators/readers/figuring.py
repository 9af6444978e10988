"""A log folded with the readers of figures beside it, as a worker will do it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

from operators.events import (
    AssistantChunk,
    AssistantMessage,
    CompactionSummary,
    Event,
    Line,
    LogOnly,
    OtherChunk,
    RequestHeader,
    Timed,
)
from operators.readers.bodies import Claim, Finish, Header, Prune, Summary, WholeStream
from operators.readers.rooms import Readers, Saved
from operators.session import Out, Session
from schemas.inbound import read_line
from schemas.streams import timed
from tests.laws import folding

SUMMARIES = ("compaction/summary", "compact/summary")


class Read(Struct, frozen=True):
    """A line for the session, and the same with all that readers look at."""

    line: Line
    rich: Line


class _Data(Struct):
    header: Raw = Raw(b"null")
    stream: Raw = Raw(b"[]")
    chunk: Raw = Raw(b"null")
    shadowedRange: Raw = Raw(b"null")  # noqa: N815
    shadowedTokenCount: Raw = Raw(b"null")  # noqa: N815
    provider: Raw = Raw(b"null")
    model: Raw = Raw(b"null")


class _Row(Struct):
    data: _Data


def read(raw: bytes) -> Read:
    line = read_line(raw)
    return Read(line, enriched(line, raw) if isinstance(line, Event) else line)


def read_all(lines: Iterable[bytes]) -> list[Read]:
    return [read(raw) for raw in lines]


def enriched(event: Event, raw: bytes) -> Event:
    """The event with what its reader left out of the log's data; as it is where nothing is."""
    body = event.body
    if type(body) is RequestHeader and (data := _data(raw)).header != b"null":
        return replace(event, body=Header(body.provider, body.model, data.header))
    if type(body) is CompactionSummary:
        data = _data(raw)
        asked = [_json(value) for value in (data.provider, data.model)]
        provider, model = (value if isinstance(value, str) else None for value in asked)
        rich = Summary(
            **asdict(body), claim=_claim(data), asked_provider=provider, asked_model=model
        )
        return replace(event, body=rich)
    if type(body) is LogOnly and event.type == "compaction/prune":
        return replace(event, body=Prune(_claim(_data(raw))))
    if isinstance(body, AssistantMessage) and body.stream is not None:
        stream = WholeStream(**{**asdict(body.stream), "raw": _data(raw).stream})
        return replace(event, body=replace(body, stream=stream))
    if isinstance(body, AssistantChunk) and type(body.chunk) is OtherChunk:
        cut_short = body.chunk.type == "finish" and b'"max-tokens"' in bytes(_data(raw).chunk)
        return replace(event, body=replace(body, chunk=Finish(body.chunk.type, cut_short)))
    return event


def read_stream(raw: Raw) -> Iterator[Timed]:
    """The records of an embedded stream; that it was cut short is said once more, at its end."""
    yield from timed(raw)
    if b'"max-tokens"' in bytes(raw):
        yield Timed(None, Finish("finish", True))


def _data(raw: bytes) -> _Data:
    try:
        return msgspec.json.decode(raw, type=_Row).data
    except (msgspec.DecodeError, RecursionError):
        told = json.loads(raw.decode("utf-8", "replace")).get("data")
        named = told if isinstance(told, dict) else {}
        names = [name for name in _Data.__struct_fields__ if name in named]
        return _Data(**{name: Raw(json.dumps(named[name]).encode()) for name in names})


def _json(raw: Raw) -> Any:
    return json.loads(bytes(raw))


def _claim(data: _Data) -> Claim | None:
    where, tokens = _json(data.shadowedRange), _seq(_json(data.shadowedTokenCount))
    start = _seq(where.get("start")) if isinstance(where, dict) else None
    end = _seq(where.get("end")) if isinstance(where, dict) else None
    if start is None or end is None or tokens is None:
        return None
    return Claim(start, end, tokens)


def _seq(value: Any) -> int | None:
    """A number as a seq: an integer by value, from 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if 0 <= value < 2**53 else None


class Figuring:
    """Session and readers after some lines. ``reference``: the whole log counts, and the figures
    that need bodies are there, too."""

    def __init__(self, session: str | None = "s-1", *, reference: bool = False) -> None:
        self.session = Session(session)
        if reference:
            self.readers = Readers(whole=True, read_stream=read_stream)
        else:
            self.readers = Readers()

    def fork(self) -> Figuring:
        twin = Figuring()
        twin.session, twin.readers = self.session.fork(), self.readers.fork()
        return twin

    def take(self, read: Read, out: Out | None = None) -> None:
        out = out or Out(partials=False)
        before = self.session.as_of_seq
        self.session.take(read.line, out)
        if not isinstance(read.rich, Event) or self.session.as_of_seq == before:
            return
        if self.readers.needs(read.rich):
            self.readers.take(read.rich, self.session, out)

    def take_all(self, reads: Iterable[Read]) -> Figuring:
        for one in reads:
            self.take(one)
        return self


def figure(lines: Iterable[bytes], *, reference: bool = False) -> Figuring:
    return Figuring(reference=reference).take_all(map(read, lines))


def restored(figuring: Figuring) -> Figuring:
    """Through the bytes of a snapshot."""
    saved = folding.Saved()
    saved.save(figuring.session.fork())
    head = msgspec.json.encode(figuring.readers.saved())
    prices = figuring.readers.prices
    numbers = sorted({seq >> 4 for seq in prices.table})
    rows = msgspec.json.encode([row for number in numbers for row in prices.segment(number)])
    resumed = Figuring()
    resumed.session = saved.load()
    resumed.readers = Readers.restored(
        msgspec.json.decode(head, type=Saved),
        msgspec.json.decode(rows, type=list[tuple[int, int]]),
        resumed.session,
    )
    return resumed
