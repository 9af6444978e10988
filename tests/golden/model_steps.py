"""The model's assistant rows and the figures of a turn (§5.1, §5.6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.golden.model_bounds import Bounds, Place
from tests.golden.model_log import Ev, blank, integer, message, text

Json = Any


@dataclass
class Moment:
    """One chunk: seq and time; an attempt's chunks have its seq and the stream's own times."""

    seq: int
    time: int | None
    attempt: bool = False


@dataclass
class Step:
    """One step from its start on; ``settled`` once it has a final message or was closed."""

    turn: int | None
    step: int | None
    start: int | None = None
    started: int | None = None  #: seq of its start
    token: int | None = None
    settled: bool = False
    finals: int = 0
    blocks: dict[int, dict[str, Any]] = field(default_factory=dict)
    first: Moment | None = None  #: the first chunk
    seen: Moment | None = None  #: the first that made it visible
    usage: Json = None
    frozen: Assistant | None = None
    late: bool = False  #: chunks after the final message, or a second start


@dataclass
class Assistant:
    """A row; ``rank`` is -90 for a frozen one. The last two say what may touch its timing."""

    seq: int
    rank: int
    status: str
    turn: int | None
    step: int | None
    time: int | None
    blocks: list[Json]
    usage: Json = None
    message_id: str | None = None
    start: int | None = None
    token: int | None = None
    completed: int | None = None
    final: bool = False
    by_attempt: bool = False
    forgotten: bool = False
    looked_ahead: bool = False

    @property
    def spoken(self) -> bool:
        return any(b.get("type") == "text" and not blank(b.get("text") or "") for b in self.blocks)

    @property
    def visibility(self) -> str:
        shown = self.status == "interrupted" or any(map(visible, self.blocks))
        return "transcript" if shown else "auxiliary"


@dataclass
class Turn:
    """Figures of a closed turn, as its ``turn`` row has them."""

    number: int | None
    seq: int
    closing_seq: int | None
    ttft_ms: int | None
    decode_ms: int | None
    decode_tokens: int | None
    copies: bool
    attempts: bool
    second: bool  #: some step has more than one final message


def visible(block: Json) -> bool:
    """Non-blank text or reasoning, or any block other than a tool call."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind in ("text", "reasoning"):
        return not blank(text(block.get("text")) or "")
    return kind != "tool-call"


def records(stream: Json) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """The chunks of an embedded stream, each with its time."""
    for row in stream if isinstance(stream, list) else []:
        kind = row.get("type")
        if kind == "chunk":
            yield integer(row.get("time")), row.get("chunk") or {}
            continue
        time = integer(row.get("time0")) or 0
        pieces = row.get("args") if kind == "tool-call-chunks" else row.get("texts")
        for index, piece in enumerate(pieces or []):
            time += row["dt"][index - 1] if index else 0
            chunk = {"type": kind.replace("-chunks", "-delta"), "index": row.get("index")}
            if kind == "tool-call-chunks":
                chunk |= {"id": row.get("id"), "argumentsDelta": piece}
                chunk |= {"name": row["name"]} if "name" in row else {}
            else:
                chunk["text"] = piece
            yield time, chunk


def token(chunk: dict[str, Any]) -> bool:
    """Whether a chunk is a first token."""
    if chunk.get("type") in ("text-delta", "reasoning-delta"):
        return bool(chunk.get("text"))
    is_call = chunk.get("type") == "tool-call-delta"
    return is_call and (bool(chunk.get("argumentsDelta")) or isinstance(chunk.get("name"), str))


def stream_token(stream: Json) -> int | None:
    return next((time for time, chunk in records(stream) if token(chunk)), None)


def stream_usage(stream: Json) -> Json:
    found = [c.get("usage") for _, c in records(stream) if c.get("type") == "usage"]
    return found[-1] if found else None


def put(blocks: dict[int, dict[str, Any]], chunk: dict[str, Any]) -> None:
    """Apply a chunk to the blocks by index; a delta of another kind begins the block afresh."""
    kind, index = chunk.get("type"), chunk.get("index", 0)
    held = blocks.get(index, {})
    if kind == "block-start":
        blocks[index] = empty(chunk.get("blockType"))
    elif kind in ("text-delta", "reasoning-delta"):
        own = str(kind).removesuffix("-delta")
        block = held if held.get("type") == own else empty(own)
        blocks[index] = {**block, "text": block.get("text", "") + chunk.get("text", "")}
    elif kind == "tool-call-delta":
        block = held if held.get("type") == "tool-call" else empty("tool-call")
        name = chunk["name"] if isinstance(chunk.get("name"), str) else block.get("name")
        told = (block.get("arguments") or "") + (chunk.get("argumentsDelta") or "")
        given = block.get("id") or chunk.get("id")
        blocks[index] = {**block, "id": given, "name": name, "arguments": told}
    elif kind == "block-end":
        blocks[index] = chunk.get("block") or {}


def empty(kind: str | None) -> dict[str, Any]:
    if kind == "tool-call":
        return {"type": kind, "id": None, "name": None, "arguments": ""}
    return {"type": kind, "text": ""} if kind in ("text", "reasoning") else {"type": kind}


class Steps:
    """Assistant rows (``rows``) and turn figures (``turns``) of a log."""

    def __init__(self, events: list[Ev]) -> None:
        self.rows: list[Assistant] = []
        self.turns: list[Turn] = []
        self._bounds = Bounds()
        self._steps: dict[Place, Step] = {}
        self._begun: set[Place] = set()
        self._begin: dict[int | None, int] = {}
        self._ended: dict[int | None, int] = {}
        self._order: dict[int | None, list[Step]] = {}
        self._finals: dict[int, tuple[Step, Assistant, Ev]] = {}
        self._copies: set[int | None] = set()
        for ev in events:
            self._take(ev)
        for step in self._steps.values():
            if not step.settled and step.blocks and step.first is not None:
                self._freeze(step, None)

    def _take(self, ev: Ev) -> None:
        place = self._bounds.place(ev)
        closed = self._bounds.see(ev)
        if ev.type == "turn/start":
            self._begin[ev.turn] = ev.seq
        elif ev.type == "step/start":
            self._settle(place, ev)
            fresh = Step(*place, start=ev.time, started=ev.seq, late=place in self._begun)
            self._look(place)
            self._begun.add(place)
            was, order = self._steps.get(place), self._order.setdefault(place[0], [])
            if was is not None and not was.finals and was in order:
                order.remove(was)
            self._steps[place] = fresh
            order.append(fresh)
        elif ev.type in ("assistant/chunk", "assistant/attempt"):
            self._chunks(ev, place)
        elif ev.type == "llm/retry":
            step = self._steps.get(place)
            if step is not None and not step.settled:
                step.blocks, step.first, step.seen, step.usage = {}, None, None, None
        elif ev.type == "assistant/message" and ev.append:
            self._final(ev, place)
        elif ev.type == "assistant/message" and ev.replaces:
            self._copies.add(place[0])
        if closed is not None:
            self._close(ev, closed)

    def _look(self, place: Place) -> None:
        for row in self.rows:
            if (row.turn, row.step) == place:
                row.looked_ahead = True

    def _step(self, place: Place) -> Step:
        if place not in self._steps:
            self._steps[place] = Step(*place)
            self._order.setdefault(place[0], []).append(self._steps[place])
        return self._steps[place]

    def _chunks(self, ev: Ev, place: Place) -> None:
        if self._bounds.forgotten(place):
            self._look(place)
            return
        step = self._step(place)
        if step.settled or self._bounds.boundary(place) is not None:
            self._look(place)
            step.late = True
            return
        own = [(ev.time, ev.data.get("chunk") or {})]
        told = own if ev.type == "assistant/chunk" else list(records(ev.data.get("stream")))
        for time, chunk in told:
            if step.token is None and token(chunk):
                step.token = time
            if chunk.get("type") == "usage":
                step.usage = chunk.get("usage")
            here = Moment(ev.seq, time, ev.type == "assistant/attempt")
            step.first = step.first or here
            put(step.blocks, chunk)
            if step.seen is None and any(map(visible, step.blocks.values())):
                step.seen = here

    def _final(self, ev: Ev, place: Place) -> None:
        data, told = ev.data, message(ev)
        forgotten = self._bounds.forgotten(place)
        step = self._step(place)
        if step.frozen is not None:
            self.rows.remove(step.frozen)
            step.frozen = None
        stream = data.get("stream")
        usage = data.get("usage")
        row = Assistant(
            ev.seq,
            0,
            "interrupted" if data.get("interrupted") is True else "settled",
            *place,
            ev.time,
            [b for b in told.get("content") or [] if isinstance(b, dict)],
            usage if usage is not None else stream_usage(stream),
            text(told.get("id")),
            step.start,
            step.token if step.token is not None else stream_token(stream),
            ev.time,
            final=True,
            forgotten=forgotten or (step.started is None and place[0] in self._bounds.ever_closed),
            looked_ahead=step.late,
        )
        self.rows.append(row)
        if not step.finals:
            self._finals[id(step)] = (step, row, ev)
            step.token = row.token
        step.finals += 1
        step.settled = True
        step.blocks = {}

    def _close(self, ev: Ev, closed: list[Place]) -> None:
        places = closed or [p for p in self._steps if p[0] == ev.turn]
        for place in places:
            self._settle(place, ev)
        if ev.type == "turn/end":
            self._figures(ev)
            for place in places:
                self._steps.pop(place, None)
            self._order.pop(ev.turn, None)

    def _settle(self, place: Place, ev: Ev) -> None:
        """Close a step (or start it again): what has partial content is frozen."""
        step = self._steps.get(place)
        if step is None or step.settled:
            return
        if any(visible(b) or b.get("type") == "tool-call" for b in step.blocks.values()):
            self._freeze(step, ev)
        step.settled = True

    def _freeze(self, step: Step, ev: Ev | None) -> None:
        at = Moment(ev.seq, ev.time) if ev else step.seen or step.first
        assert at is not None
        row = Assistant(
            at.seq,
            -90 if ev else 0,
            "interrupted" if ev else "running",
            step.turn,
            step.step,
            at.time,
            [step.blocks[i] for i in sorted(step.blocks)],
            step.usage,
            start=step.start,
            token=step.token,
            by_attempt=step.first is not None and step.first.attempt,
        )
        self.rows.append(row)
        step.frozen = row if ev else None

    def _figures(self, ev: Ev) -> None:
        steps = self._order.get(ev.turn, [])
        begin = self._begin.pop(ev.turn, None)
        spoken = [r for r in self.rows if r.turn == ev.turn and r.spoken]
        spoken = [r for r in spoken if r.seq > max(self._ended.get(ev.turn, -1), begin or -1)]
        closing = max(spoken, key=lambda r: (r.seq, r.rank), default=None)
        seen = [s for s in steps if begin is not None and s.started is not None]
        first = next((s for s in seen if (s.started or 0) > (begin or 0)), None)
        kept_first = self._finals.get(id(first)) if first else None
        ttft = kept_first[1].token if kept_first else None
        start = first.start if first else None
        decode_ms = tokens = None
        for step in steps:
            kept = self._finals.get(id(step))
            out = kept and kept[1].usage and kept[1].usage.get("outputTokens")
            number = isinstance(out, (int, float)) and not isinstance(out, bool) and out >= 0
            if (
                kept is None
                or kept[2].seq < (begin or 0)
                or not number
                or kept[1].token is None
                or kept[1].completed is None
            ):
                continue
            decode_ms = (decode_ms or 0) + max(kept[1].completed - kept[1].token, 0)
            tokens = (tokens or 0) + int(out or 0)
        self.turns.append(
            Turn(
                ev.turn,
                ev.seq,
                closing.seq if closing else None,
                None if ttft is None or start is None else max(ttft - start, 0),
                decode_ms,
                tokens,
                ev.turn in self._copies,
                any(r.by_attempt for r in spoken),
                any(s.finals > 1 for s in steps),
            )
        )
        self._copies.discard(ev.turn)
        self._ended[ev.turn] = ev.seq
