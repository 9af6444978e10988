"""Damage for simulated sessions, each piece with what a reader must say of it (outputs.md, *Reason
codes*), so that a test can assert it.

>>> from pipeline.simulate import inject, simulate
>>> broken = inject(simulate(1, events=40), seed=1, kinds=["torn", "late"])
>>> [fault.reason for fault in broken.faults if fault.reason]
['not-json', 'late']
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from .session import SimulatedSession
from .writer import Json

#: Log-only types whose loss changes no surface and no row of another event.
_DROPPABLE: tuple[bytes, ...] = (
    b'"todo/write"',
    b'"plan/mode"',
    b'"permission/preset"',
    b'"approval/',
    b'"sandbox/',
)
_DROPPABLE += (b'"request/', b'"hook/invoked"', b'"tool-workflow/', b'"session/title"')


class Injected(Struct, frozen=True):
    """One piece of damage. ``line``: its number from 1, the header included. ``reason``: the fault
    that a tolerant fold reports for that line, None for none; ``strict``: what ends a strict run
    there; ``quality``: the quality fact that is counted besides ``fault``."""

    kind: str
    reason: str | None = None
    strict: str | None = None
    quality: str | None = None
    line: int = 0


class Damaged(Struct, frozen=True):
    """``session`` with its damaged lines; ``faults`` by line."""

    session: SimulatedSession
    faults: tuple[Injected, ...]


class _Cell(Struct):
    """A line on the bench, and the damage it is or shows."""

    line: bytes
    mark: Injected | None = None


class _Bench:
    """The lines while they are damaged; a cell is damaged once."""

    def __init__(self, session: SimulatedSession, seed: int) -> None:
        self.rng = Random(seed)  # noqa: S311 - seeded on purpose
        self.cells = [_Cell(line) for line in session.lines]
        self.seq = session.events  #: the next seq at the end
        self.session = session

    def place(self, *, among: Callable[[bytes], bool] = lambda _: True) -> int | None:
        """A random line, not one of the first two, that is whole and has a whole one after it."""
        cells = self.cells
        found = [
            at
            for at in range(2, len(cells) - 1)
            if cells[at].mark is None and cells[at + 1].mark is None and among(cells[at].line)
        ]
        return self.rng.choice(found) if found else None

    def insert(self, at: int, line: bytes, mark: Injected) -> None:
        self.cells.insert(at, _Cell(line, mark))

    def append(self, record: Json, mark: Injected | None) -> None:
        """A line at the end that takes the next seq."""
        line = json.dumps(record | {"seq": self.seq, "time": 0}, separators=(",", ":")).encode()
        self.cells.append(_Cell(line, mark))
        self.seq += 1


# --- damage in the middle; no seq is taken --------------------------------------------------------


def _bad_json(bench: _Bench) -> None:
    _insert(bench, b'{"type":"turn/start","seq":', "bad-json", "not-json")


def _not_utf8(bench: _Bench) -> None:
    _insert(bench, b"\xff\xfe{\x00", "not-utf8", "not-utf8", "replaced_utf8")


def _not_object(bench: _Bench) -> None:
    _insert(bench, b'["a","row"]', "not-object", "bad-envelope")


def _bad_seq(bench: _Bench) -> None:
    line = b'{"type":"turn/start","seq":0.5,"time":0,"data":{"turn":1}}'
    _insert(bench, line, "bad-seq", "seq-invalid")


def _torn(bench: _Bench) -> None:
    at = bench.place()
    if at is not None:
        line = bench.cells[at].line
        part = line[: 1 + int(bench.rng.random() * (len(line) - 1))]
        part = part.decode("utf-8", "ignore").encode()  # a cut character would be `not-utf8`
        bench.insert(at, part, Injected("torn", "not-json", "not-json"))


def _insert(bench: _Bench, line: bytes, kind: str, reason: str, quality: str | None = None) -> None:
    at = bench.place()
    if at is not None:
        bench.insert(at + 1, line, Injected(kind, reason, reason, quality))


def _replaced_utf8(bench: _Bench) -> None:
    at = bench.place(among=lambda line: b'"text":"' in line)
    if at is not None:
        line = bench.cells[at].line.replace(b'"text":"', b'"text":"\xff', 1)
        mark = Injected("replaced-utf8", quality="replaced_utf8")
        bench.cells[at] = _Cell(line, mark)


# --- order ----------------------------------------------------------------------------------------


def _duplicate(bench: _Bench) -> None:
    at = bench.place()
    if at is not None:
        mark = Injected("duplicate", strict="seq-not-contiguous")
        bench.insert(at + 1, bench.cells[at].line, mark)


def _conflict(bench: _Bench) -> None:
    at = bench.place()
    if at is not None:
        mark = Injected("conflict", strict="seq-not-contiguous", quality="seq_conflict")
        bench.insert(at + 1, bench.cells[at].line + b" ", mark)


def _droppable(line: bytes) -> bool:
    return line.startswith(b'{"type":"') and any(kind in line[:40] for kind in _DROPPABLE)


def _gap(bench: _Bench) -> bytes | None:
    """A line is lost; the one after it shows it. The lost line."""
    at = bench.place(among=_droppable)
    if at is None:
        return None
    lost = bench.cells.pop(at)
    bench.cells[at].mark = Injected("gap", strict="seq-not-contiguous", quality="gap")
    return lost.line


def _lose(bench: _Bench) -> None:
    _gap(bench)


def _late(bench: _Bench) -> None:
    lost = _gap(bench)
    if lost is not None:
        mark = Injected("late", "late", "seq-not-contiguous")
        bench.cells.append(_Cell(lost, mark))


# --- wrong events at the end; each takes a seq ----------------------------------------------------


def _wrong_ops(bench: _Bench) -> None:
    """Two messages and a tool result that are right, then one event per surface fault."""
    seq, direct = bench.seq, bench.session.shape == "v4"
    bench.append(_user("one") | {"surfaceOp": "append"}, None)
    bench.append(_user("two") | {"surfaceOp": "append"}, None)
    bench.append(_result("r1", direct=direct) | {"surfaceOp": "append"}, None)
    keys = ("startSeq", "endSeq") if bench.session.shape in ("v3", "v4") else ("start", "end")
    for reason, record in _surface_faults(seq, keys, direct=direct):
        bench.append(record, Injected("wrong-op", reason, reason))


def _surface_faults(seq: int, keys: tuple[str, str], *, direct: bool) -> Iterator[tuple[str, Json]]:
    """One event per reason code, about the nodes ``seq``, ``seq + 1`` (users), ``seq + 2``."""

    def over(first: int, last: int) -> Json:
        return {"surfaceOp": {"op": "replace", keys[0]: first, keys[1]: last}}

    append = {"surfaceOp": "append"}
    both = {"sourceEventSeqs": [seq, seq + 1]}
    user, far, title = _user("bad"), seq + 1_000, {"type": "session/title", "data": {"title": "t"}}
    yield "surfaceop-missing", user
    yield "surfaceop-invalid", user | {"surfaceOp": "prepend"}
    yield "surfaceop-invalid-replace", user | {"surfaceOp": {"op": "replace", keys[0]: seq}}
    yield "surfaceop-on-log-only", title | append
    yield "sources-on-log-only", title | both
    yield "replace-start-not-found", user | over(far, seq) | both
    yield "replace-end-not-found", user | over(seq, far) | both
    yield "replace-start-after-end", user | over(seq + 1, seq) | both
    yield "sources-not-array", user | append | {"sourceEventSeqs": "no"}
    yield "sources-empty", user | append | {"sourceEventSeqs": []}
    yield "sources-element", user | append | {"sourceEventSeqs": [seq, True]}
    yield "sources-duplicate", user | append | {"sourceEventSeqs": [seq, seq]}
    yield "sources-not-earlier", user | append | {"sourceEventSeqs": [far]}
    yield "sources-missing-shadowed", user | over(seq, seq + 1) | {"sourceEventSeqs": [seq]}
    result, other = _result("r1", direct=direct), _result("r2", direct=direct)
    yield "rewrite-not-one-node", result | over(seq, seq + 1) | both
    yield "rewrite-wrong-target", result | over(seq, seq) | both
    cites = {"sourceEventSeqs": [seq + 2]}
    yield "rewrite-changes-more", other | over(seq + 2, seq + 2) | cites
    yield "type-invalid", {"type": "", "data": {}}


def _user(text: str) -> Json:
    content = [{"type": "text", "text": text}]
    message = {"id": f"fault-{text}", "role": "user", "content": content}
    return {"type": "user/message", "data": message | {"source": {"kind": "user"}}}


def _result(message_id: str, *, direct: bool) -> Json:
    source = {"kind": "tool", "callId": "fault-call"}
    message: Json = {"id": message_id, "role": "user", "source": source, "content": []}
    if direct:
        message |= {"role": "tool", "toolCallId": "fault-call"}
    else:
        block = {"type": "tool-result", "toolCallId": "fault-call", "content": []}
        message["content"] = [block]
    return {"type": "tool/result", "data": {"turn": 1, "step": 1, "message": message}}


def _huge(bench: _Bench) -> None:
    """A line longer than ``ingest`` sends (8 MiB); the fold itself takes it."""
    bench.append(_user("x" * (9 << 20)) | {"surfaceOp": "append"}, Injected("huge"))


_MAKERS: dict[str, Callable[[_Bench], None]] = {
    "bad-json": _bad_json,
    "torn": _torn,
    "not-utf8": _not_utf8,
    "replaced-utf8": _replaced_utf8,
    "not-object": _not_object,
    "bad-seq": _bad_seq,
    "duplicate": _duplicate,
    "conflict": _conflict,
    "gap": _lose,
    "late": _late,
    "wrong-op": _wrong_ops,
    "huge": _huge,
}
FAULTS: tuple[str, ...] = tuple(_MAKERS)


def inject(session: SimulatedSession, *, seed: int = 0, kinds: Collection[str] = FAULTS) -> Damaged:
    """Damage a session once per kind, as far as it has a place for it. The same arguments give the
    same bytes."""
    unknown = set(kinds) - set(FAULTS)
    if unknown:
        raise ValueError(f"unknown faults: {', '.join(sorted(unknown))}")
    bench = _Bench(session, seed)
    for kind in FAULTS:
        if kind in kinds:
            _MAKERS[kind](bench)
    marked = [
        replace(cell.mark, line=number)
        for number, cell in enumerate(bench.cells, 1)
        if cell.mark is not None
    ]
    lines = [cell.line for cell in bench.cells]
    return Damaged(replace(session, lines=lines, events=bench.seq), tuple(marked))
