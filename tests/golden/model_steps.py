"""The model's assistant rows and the figures of a turn (§5.1, §5.6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.golden.model_bounds import Bounds, Place
from tests.golden.model_chunks import put, records, stream_token, stream_usage, token, visible
from tests.golden.model_log import Ev, blank, message, text

Json = Any


@dataclass
class Moment:
    """One chunk: seq and time; an attempt's chunks have its seq and the stream's own times."""

    seq: int
    time: int | None
    attempt: bool = False


@dataclass(eq=False)
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


@dataclass(eq=False)
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
            if was is not None and was.started is not None and not was.finals and was in order:
                order[order.index(was)] = fresh
            else:
                order.append(fresh)
            self._steps[place] = fresh
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
            shown = any(map(visible, step.blocks.values()))
            step.seen = (step.seen or here) if shown else None

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
        again = [s for s in seen if first and (s.turn, s.step) == (first.turn, first.step)]
        first = again[-1] if again else first
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
