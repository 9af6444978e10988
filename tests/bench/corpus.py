"""What is measured: mixed logs in every shape, or one long session that repeats itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from operators.changes import Change
from operators.session import Out, Session
from pipeline.simulate import SHAPES, simulate
from schemas.inbound import read_line

from .measure import Options

BATCH = 500
TIME = 1_750_302_000_000


class Log(Struct, frozen=True):
    session: str
    lines: list[bytes]


@cache
def mixed(options: Options) -> list[Log]:
    """Logs of all shapes, about 24 000 lines at size 1; with ``logs``, the files of that folder."""
    if options.logs is not None:
        paths = sorted(options.logs.rglob("*.jsonl"))
        named = [(str(path.relative_to(options.logs)), path.read_bytes()) for path in paths]
        return [Log(name, [line for line in data.split(b"\n") if line]) for name, data in named]
    logs: list[Log] = []
    wanted, seed = options.scaled(24_000), 0
    while sum(len(log.lines) for log in logs) < wanted:
        seed += 1
        made = simulate(seed, events=1_000, shape=SHAPES[seed % len(SHAPES)])
        logs.append(Log(made.id, made.lines))
    return logs


def fold(logs: list[Log], each: Callable[[Change], object] | None = None) -> None:
    """Decode and fold, in batches as a worker does; ``each`` is called with every change."""
    for log in logs:
        state = Session(log.session)
        for start in range(0, len(log.lines), BATCH):
            state, out = state.fork(), Out()
            for line in log.lines[start : start + BATCH]:
                state.take(read_line(line), out)
            for change in out.changes(state):
                if each is not None:
                    each(change)


def changes(logs: list[Log]) -> list[Change]:
    found: list[Change] = []
    fold(logs, found.append)
    return found


# --- one long session -----------------------------------------------------------------------------

TURNS = 30  #: of a period, which ends with a compaction
PERIOD = TURNS * 11 + 4  #: events of a period


def periods() -> Iterator[list[bytes]]:
    """One session without end: turns of two steps and a tool call, a compaction every 30 turns.
    Period after period of the same lines, but for numbers, ids and times."""
    log = _Steady()
    while True:
        yield log.period()


class _Steady:
    def __init__(self) -> None:
        self._seq = 0
        self._turn = 0
        self._lines: list[bytes] = []
        self._head: int | None = None  # the last checkpoint

    def period(self) -> list[bytes]:
        self._lines = []
        first = self._seq if self._head is None else self._head
        last = first
        for _ in range(TURNS):
            last = self._exchange()
        self._compaction(first if self._head is not None else first + 1, last)
        return self._lines

    def _row(self, kind: str, data: Any, **envelope: Any) -> int:
        row = {"type": kind, "seq": self._seq, "time": TIME + self._seq * 137, "data": data}
        self._lines.append(encode(row | envelope))
        self._seq += 1
        return self._seq - 1

    def _exchange(self) -> int:
        self._turn += 1
        turn = self._turn
        one, two = {"turn": turn, "step": 1}, {"turn": turn, "step": 2}
        call = f"call_{turn:08x}"
        self._row("turn/start", {"turn": turn})
        text = "Please look at the failing test of the module and mend it. " * 3
        prompt = {"id": f"u-{turn}", "role": "user", "content": [_text(text)]}
        self._row("user/message", prompt | {"source": {"kind": "user"}}, surfaceOp="append")
        self._row("step/start", one)
        block: Any = {
            "type": "tool-call",
            "id": call,
            "name": "read",
            "arguments": '{"path":"a/b"}',
        }
        self._answer(one, [_text(text), block])
        source = self._row("tool/call", one | {"callId": call, "name": "read", "arguments": "{}"})
        content = [_text("def read():\n    return 1\n" * 10)]
        result: Any = {
            "type": "tool-result",
            "toolCallId": call,
            "content": content,
            "isError": False,
        }
        source_of = {"source": {"kind": "tool", "callId": call}}
        message = {"id": f"r-{turn}", "role": "user", "content": [result]} | source_of
        append = {"sourceEventSeqs": [source], "surfaceOp": "append"}
        self._row("tool/result", one | {"message": message}, **append)
        self._row("step/end", one)
        self._row("step/start", two)
        last = self._answer(two, [_text(text)])
        self._row("step/end", two)
        self._row("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
        return last

    def _answer(self, place: dict[str, Any], blocks: list[Any]) -> int:
        source = {"kind": "model", "provider": "p", "model": "m"}
        message = {"id": f"a-{self._seq}", "role": "assistant", "content": blocks, "source": source}
        usage = {"inputTokens": 8727, "outputTokens": 42, "cacheReadTokens": 100}
        data = place | {"message": message, "usage": usage}
        return self._row("assistant/message", data, sourceEventSeqs=[], surfaceOp="append")

    def _compaction(self, start: int, end: int) -> None:
        ids = {"compactionId": f"c-{self._seq}"}
        self._row("compaction/start", ids)
        summary = ids | {"summary": [_text("What was done so far. " * 20)], "shadowedSeqs": [start]}
        cited = self._row("compaction/summary", summary)
        source = {"kind": "compact-checkpoint", **ids}
        message = {"id": f"k-{self._seq}", "role": "user", "content": [_text("summary")]}
        replace = {"op": "replace", "startSeq": start, "endSeq": end}
        self._head = self._row(
            "user/message",
            message | {"source": source},
            surfaceOp=replace,
            sourceEventSeqs=[[start, end], cited],
        )
        self._row("compaction/end", ids | {"reason": {"kind": "completed"}})


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
