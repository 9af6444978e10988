"""The model's tool rows: announcements, calls and results, paired as they come (§5.2, §5.7)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.golden.model_bounds import Boundary, Bounds, Place
from tests.golden.model_log import Ev, call_id, message, text


@dataclass
class Tool:
    call_id: str | None
    place: Place
    call: Ev | None = None
    result: Ev | None = None
    cut: Boundary | None = None  #: the boundary that interrupted it
    announced_by: int | None = None
    at_own_seq: bool = False  #: cut at once because its turn had been forgotten
    completed_late: bool = False  #: the call came after its result
    nested: list[Ev] = field(default_factory=list)
    closed: Boundary | None = None  #: what closed its step or turn, answered or not

    @property
    def anchor(self) -> int:
        first = self.call or self.result
        assert first is not None
        return first.seq

    @property
    def status(self) -> str:
        if self.result is not None:
            return "error" if is_error(self.result) else "ok"
        return "interrupted" if self.cut else "running"

    @property
    def visibility(self) -> str:
        shown = self.result is not None or self.announced_by is not None
        return "transcript" if shown else "auxiliary"


def is_error(ev: Ev) -> bool:
    told = message(ev)
    content = told.get("content")
    first = content[0] if isinstance(content, list) and content else None
    wrapped = isinstance(first, dict) and first.get("type") == "tool-result"
    return (first if wrapped else told).get("isError") is True  # type: ignore[union-attr]


@dataclass
class Tools:
    """``rows`` of a log in the order they were made; ``dropped``: seqs of ignored results."""

    events: list[Ev]
    rows: list[Tool] = field(default_factory=list)
    dropped: dict[int, str | None] = field(default_factory=dict)
    reused: set[str | None] = field(default_factory=set)
    forgotten: set[str | None] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._bounds = Bounds()
        self._known: list[Tool] = []
        self._said: dict[str, tuple[int, Place]] = {}
        self._waiting: list[Ev] = []
        calls = Counter(text(e.data.get("callId")) for e in self.events if e.type == "tool/call")
        self.reused = {name for name, count in calls.items() if count > 1}
        for ev in self.events:
            self._take(ev)

    def by_result(self, seq: int) -> Tool | None:
        return next((r for r in self.rows if r.result is not None and r.result.seq == seq), None)

    def by_call(self, seq: int) -> Tool | None:
        return next((r for r in self.rows if r.call is not None and r.call.seq == seq), None)

    def _take(self, ev: Ev) -> None:
        place = self._bounds.place(ev)
        if ev.type == "assistant/message" and ev.append:
            self._announce(ev, place)
        elif ev.type == "tool/call":
            self._call(ev, place)
        elif ev.type == "tool/result" and ev.append:
            self._result(ev, place)
        elif ev.type in ("tool/code-dispatch", "tool/code-dispatch-start"):
            self._nest(ev)
        closed = self._bounds.see(ev)
        if closed is not None:
            self._close(ev, closed)

    def _announce(self, ev: Ev, place: Place) -> None:
        for block in message(ev).get("content") or []:
            if not isinstance(block, dict) or block.get("type") != "tool-call":
                continue
            name = text(block.get("id"))
            if name is None:
                continue
            self._said[name] = (ev.seq, place)
            for row in self._known:
                mine = row.call_id == name and row.place == place
                if mine and row.announced_by is None:
                    row.announced_by = ev.seq

    def _call(self, ev: Ev, place: Place) -> None:
        name = text(ev.data.get("callId"))
        if name is None:
            return
        row = next(
            (r for r in self._known if r.call_id == name and r.call is None and r.place == place),
            None,
        )
        if row is None:
            row = Tool(name, place)
            self._adopt(row)
            self.rows.append(row)
            self._known.append(row)
        else:
            row.completed_late = True
        row.call = ev
        said = self._said.get(name)
        row.announced_by = said[0] if said else None
        if row.result is None:
            row.cut = self._bounds.boundary(place)
            if row.cut is None and self._bounds.forgotten(place):
                row.cut, row.at_own_seq = (ev.seq, ev.time), True
        row.closed = row.closed or row.cut or self._bounds.boundary(place)

    def _result(self, ev: Ev, place: Place) -> None:
        name = call_id(ev)
        same = [r for r in self._known if r.call_id == name and (r.call or r.place == place)]
        waiting = [r for r in same if r.result is None]
        if waiting:
            waiting[-1].result = ev
        elif same:
            self.dropped[ev.seq] = name
        else:
            row = Tool(name, place, result=ev, closed=self._bounds.boundary(place))
            self._adopt(row)
            self.rows.append(row)
            self._known.append(row)

    def _nest(self, ev: Ev) -> None:
        root = text(ev.data.get("rootCallId"))
        rows = [r for r in self._known if r.call_id == root and root]
        (rows[-1].nested if rows else self._waiting).append(ev)

    def _adopt(self, row: Tool) -> None:
        """A new row takes the nested calls that waited for it."""
        mine = [e for e in self._waiting if e.data.get("rootCallId") == row.call_id]
        row.nested += mine
        self._waiting = [e for e in self._waiting if e not in mine]

    def _close(self, ev: Ev, closed: list[Place]) -> None:
        for row in self._known:
            inside = row.place in closed if closed else row.place[0] == ev.turn
            if inside and row.closed is None:
                row.closed = (ev.seq, ev.time)
            if inside and row.call is not None and row.result is None and row.cut is None:
                row.cut = (ev.seq, ev.time)
        if ev.type == "turn/end":
            self._waiting = []
            gone = [r for r in self._known if r.place[0] == ev.turn and r.result is not None]
            self.forgotten |= {r.call_id for r in gone}
            self._known = [r for r in self._known if r not in gone]
            self._said = {n: s for n, s in self._said.items() if s[1][0] != ev.turn}
