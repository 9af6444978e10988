"""The exact measure of a prompt: what the provider last counted, and what came since (readers.md
§5.2).

It needs the text of answers as they were streamed, so it is a fold beside a file and kept in no
worker. A message that the reference gives up on (outside of its step, citing what is no chunk)
anchors nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Raw, Struct

from operators.events import (
    AssistantChunk,
    AssistantMessage,
    BlockEnd,
    BlockStart,
    Chunk,
    Event,
    OtherChunk,
    Run,
    Sources,
    StepStart,
    TextDelta,
    Timed,
    ToolDelta,
)

from .estimate import MESSAGE, block_price, call_price, text_price
from .javascript import units
from .request import HeaderFacts

ReadStream: TypeAlias = Callable[[Raw], Iterable[Timed]]


class Measured(Struct, frozen=True):
    """``kind`` of the baseline: usage, estimated or none."""

    kind: str
    baseline: int
    delta: int
    total: int


class Anchor(Struct, frozen=True, array_like=True, gc=False):
    """``identity`` of the header it was set under, None without one; ``surface``: what the surface
    cost then, and the answer."""

    identity: str | None
    surface: int
    kind: str
    base: int


class Block(Struct, array_like=True, gc=False):
    """One block on its way; lengths in UTF-16 units. ``price``: that of the final block."""

    type: str
    length: int = 0
    name: int = 0
    price: int | None = None

    def tokens(self) -> int:
        if self.price is not None:
            return self.price
        if self.type == "tool-call":
            return call_price(self.name, self.length)
        return text_price(self.length)


class Assembly:
    """Blocks gathered from chunks, as far as their price needs it."""

    __slots__ = ("blocks", "cut_short")

    def __init__(self) -> None:
        self.blocks: dict[int, Block] = {}
        self.cut_short = False

    def take(self, chunk: Chunk) -> None:
        if isinstance(chunk, OtherChunk):
            self.cut_short = self.cut_short or chunk.cut_short
            return
        if not isinstance(chunk, BlockStart | TextDelta | ToolDelta | BlockEnd):
            return
        block = self.blocks.get(chunk.index)
        if block is not None and block.price is not None:
            return
        if block is None:
            block = self.blocks[chunk.index] = Block(_type(chunk))
        if isinstance(chunk, TextDelta):
            block.length += units(chunk.text)
        elif isinstance(chunk, ToolDelta):
            block.length += units(chunk.arguments)
            block.name = units(chunk.name or "") or block.name
        elif isinstance(chunk, BlockEnd):
            block.type, block.price = chunk.type, block_price(chunk.block)

    def price(self) -> int:
        """The price of the message they make; 0 for one without blocks."""
        kept = [b for b in self.blocks.values() if not self.cut_short or b.type != "tool-call"]
        return sum(block.tokens() for block in kept) + MESSAGE if kept else 0


def _type(chunk: BlockStart | TextDelta | ToolDelta | BlockEnd) -> str:
    if isinstance(chunk, BlockStart):
        return chunk.block_type
    if isinstance(chunk, TextDelta):
        return chunk.kind
    return "tool-call" if isinstance(chunk, ToolDelta) else chunk.type


def members(chunk: Chunk | Run) -> Iterator[Chunk]:
    """The chunks of a packed row, one by one."""
    if not isinstance(chunk, Run):
        yield chunk
    elif chunk.kind == "tool-call":
        for text in chunk.texts:
            yield ToolDelta(chunk.index, chunk.id, chunk.name, text)
    else:
        for text in chunk.texts:
            yield TextDelta(chunk.index, chunk.kind, text)


class Measure:
    """``read_stream`` reads the records of an embedded stream."""

    __slots__ = ("anchor", "chunks", "header", "read_stream", "step")

    def __init__(self, read_stream: ReadStream) -> None:
        self.read_stream = read_stream
        self.header: HeaderFacts | None = None
        self.step: tuple[int | None, int | None, int] | None = None  # and the surface's price then
        self.chunks: dict[int, Chunk] = {}  # of the log's newest turn, by seq
        self.anchor: Anchor | None = None

    def turn_start(self) -> None:
        self.chunks = {}

    def step_start(self, body: StepStart, surface: int) -> None:
        self.step = (body.turn, body.step, surface)

    def step_end(self) -> None:
        self.step = None

    def chunk(self, event: Event, body: AssistantChunk) -> None:
        for at, chunk in enumerate(members(body.chunk)):
            self.chunks[event.seq + at] = chunk

    def message(self, event: Event, body: AssistantMessage, own: int, surface: int) -> None:
        """An answer of price ``own``, before it joins the surface of price ``surface``."""
        step = self.step
        if step is None or step[:2] != (body.turn, body.step):
            return
        header, usage = self.header, body.usage
        answer: int | None = own
        if usage is not None and header is not None:
            answer = self._streamed(event, body, own)
        if answer is None:
            return
        then = surface if body.stream is not None else step[2]
        then += answer
        estimated = then + (header.tokens if header else 0)
        kind, base = "estimated", estimated
        if usage is not None and header is not None:
            prompt = usage.uncached_input + usage.cache_read + usage.cache_write
            if prompt + usage.output >= estimated:
                kind, base = "usage", prompt + usage.output
        self.anchor = Anchor(None if header is None else header.identity, then, kind, base)

    def _streamed(self, event: Event, body: AssistantMessage, own: int) -> int | None:
        """The price of the answer as it was streamed; None when it cites what is no chunk."""
        gathered = Assembly()
        if body.stream is not None:
            for record in self.read_stream(body.stream.raw):
                for chunk in members(record.chunk):
                    gathered.take(chunk)
            return gathered.price()
        sources = event.sources
        if not isinstance(sources, Sources):
            return own
        if sources.count > len(self.chunks):
            return None
        for first, last in sources.ranges:
            for seq in range(first, last + 1):
                if seq not in self.chunks:
                    return None
                gathered.take(self.chunks[seq])
        return gathered.price()

    def now(self, surface: int) -> Measured:
        """The measure, on a surface of that price."""
        header, anchor = self.header, self.anchor
        if anchor is not None and anchor.identity == (None if header is None else header.identity):
            delta = surface - anchor.surface
            return Measured(anchor.kind, anchor.base, delta, max(0, anchor.base + delta))
        if header is None and not surface:
            return Measured("none", 0, 0, 0)
        total = surface + (header.tokens if header else 0)
        return Measured("estimated", total, 0, total)
