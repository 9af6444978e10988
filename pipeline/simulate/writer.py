"""Writes one conversation as log lines; the shapes (``shapes.py``) say how each thing is spelled.

The conversation model calls one method per thing that happens, in the newest vocabulary but one
(v3: plugin sources, wrapped results are made here), and gets back the seq it was logged at.
``time`` is set by the model before each call, in epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from .hostile import HIGH_BYTES, LOW_BYTES

Json: TypeAlias = dict[str, Any]
Chunk: TypeAlias = tuple[int, Json]  #: (time, stream chunk)

_encode = msgspec.json.Encoder().encode
COMPACT_PLUGIN = "compact"
PROMPT_PLUGIN = "@deepseek-ai/dsh-system-prompt"


class Result(msgspec.Struct, frozen=True):
    """A tool result before any shape: ``is_error`` None means the key is absent."""

    call_id: str
    message_id: str
    content: list[Json]
    is_error: bool | None = None
    error: Json | None = None
    meta: Any = None


class Span(msgspec.Struct, frozen=True):
    """A replaced span of the surface: its nodes in surface order, first and last included."""

    nodes: Sequence[int]

    @property
    def first(self) -> int:
        return self.nodes[0]

    @property
    def last(self) -> int:
        return self.nodes[-1]


class Writer:
    """The common part of all shapes: envelope, seqs, and everything that is spelled alike."""

    version = 0
    replace_keys = ("start", "end")
    dispatch_type = "tool/code-dispatch"

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.seq = 0
        self._firsts: list[int] = []  #: first seq of each line
        self.time = 0
        self.turn = 0
        self.step = 0
        self._prompt = ""
        self.inherited: int | None = None  #: events before the fork's cut
        self._compactions = 0

    # --- the envelope ---------------------------------------------------------------------------

    def event(
        self,
        kind: str,
        data: Json,
        op: str | Span | None = None,
        sources: Iterable[int] | None = None,
    ) -> int:
        """Log one event; its seq."""
        record: Json = {"type": kind, "seq": self.seq, "time": self.time, "data": data}
        if sources is not None:
            record["sourceEventSeqs"] = self.sources(list(sources))
        if op is not None:
            record["surfaceOp"] = op if isinstance(op, str) else self._replace(op)
        return self.log(record)

    def log(self, record: Json, count: int = 1) -> int:
        """Append one line that takes ``count`` seqs; the first of them."""
        line = _encode(record)
        if HIGH_BYTES in line:
            line = line.replace(HIGH_BYTES, b"\\ud83d")
        if LOW_BYTES in line:
            line = line.replace(LOW_BYTES, b"\\ude42")
        self.lines.append(line)
        seq = self.seq
        self._firsts.append(seq)
        self.seq += count
        return seq

    def cut(self, lines: int) -> None:
        """Keep only the first ``lines`` lines, as if nothing had been logged after them."""
        if lines < len(self.lines):
            self.seq = self._firsts[lines]
            del self.lines[lines:], self._firsts[lines:]

    def _replace(self, span: Span) -> Json:
        first, last = self.replace_keys
        return {"op": "replace", first: span.first, last: span.last}

    def sources(self, seqs: list[int]) -> list[Any]:
        """``sourceEventSeqs`` as this shape stores them."""
        return seqs

    def header(self, session: str, created: int, extra: Json) -> Json:
        """The log's first line (session-log.md §1.2)."""
        head: Json = {"type": "session", "version": self.version, "id": session}
        head |= {"createdAt": created, "delegationDepth": 0}
        return head | extra | self._seeded()

    def _seeded(self) -> Json:
        return {} if self.inherited is None else {"seedLength": self.inherited}

    # --- turns, steps, streams ------------------------------------------------------------------

    def turn_start(self, turn: int) -> None:
        """Open a turn; what is logged from here on belongs to it."""
        self.turn, self.step = turn, 0
        self.event("turn/start", {"turn": turn})

    def turn_end(self, reason: Json) -> None:
        self.event("turn/end", {"turn": self.turn, "reason": reason})

    def step_start(self, step: int) -> None:
        self.step = step
        self.event("step/start", self.place())

    def step_end(self) -> None:
        self.event("step/end", self.place())

    def place(self) -> Json:
        """The open turn and step, as most events carry them."""
        return {"turn": self.turn, "step": self.step}

    def stream(self, chunks: Sequence[Chunk]) -> None:
        """Chunks of the running attempt, as one append batch."""
        raise NotImplementedError

    def attempt(self) -> None:
        """The running attempt settled without a message."""
        raise NotImplementedError

    def lose_stream(self) -> None:
        """The process died while an attempt was streaming."""
        raise NotImplementedError

    def assistant(self, message: Json, extra: Json, over: Span | None = None) -> int:
        """The attempt's final message; ``extra`` holds ``usage`` and ``interrupted``. With ``over``
        a regenerated copy takes that span's place (v0 and v1 alone)."""
        raise NotImplementedError

    # --- messages -------------------------------------------------------------------------------

    def user(self, message: Json, over: Span | None = None, extra: Iterable[int] = ()) -> int:
        """A user message of any source; ``extra`` are sources besides the span's nodes."""
        message = self.message(message)
        if over is None:
            return self.event("user/message", message, "append")
        return self.event("user/message", message, over, [*extra, *over.nodes])

    def steering(self, message: Json) -> int:
        """A user message that was claimed from the next-step inbox."""
        return self.user(message)

    def context(self, message: Json) -> int:
        """An injected context message, appended."""
        return self.user(message)

    def message(self, message: Json) -> Json:
        """A message in this shape's spelling of sources."""
        return message

    def prompt(self, text: str) -> None:
        """The system prompt in force from here on: part of the request header, from v3 on a
        message of its own."""
        self._prompt = text

    def system(self, message_id: str, text: str) -> int:
        """A later system message in history (v3 on)."""
        raise NotImplementedError

    def developer(self, message: Json, header: int | None) -> int:
        """A tool list delta (v4); ``header`` the request header that holds an added tool."""
        raise NotImplementedError

    # --- tools ----------------------------------------------------------------------------------

    def tool_call(self, block: Json) -> int:
        data = self.place() | {"callId": block["id"], "name": block["name"]}
        return self.event("tool/call", data | {"arguments": block["arguments"]})

    def result(self, result: Result, source: int | None, over: Json | None = None) -> int:
        """A tool's result; with ``over`` (the place of the first one) the pruned copy of the result
        logged at ``source``."""
        data = (over or self.place()) | self.result_body(result)
        if result.error is not None:
            data["error"] = result.error
        if result.meta is not None:
            data["meta"] = result.meta
        sources = None if source is None else [source]
        op = Span([source]) if over is not None and source is not None else "append"
        return self.event("tool/result", data, op, sources)

    def result_body(self, result: Result) -> Json:
        """The role-user wrapper of v0 … v3."""
        block: Json = {"type": "tool-result", "toolCallId": result.call_id}
        block["content"] = result.content
        if result.is_error is not None:
            block["isError"] = result.is_error
        source = {"kind": "tool", "callId": result.call_id}
        message = {"id": result.message_id, "role": "user", "source": source, "content": [block]}
        return {"message": message}

    def dispatch(self, call: Json, settled: Json | None = None) -> None:
        """A nested call's start, or its settling with ``isError`` and ``content``."""
        if settled is None:
            self.event(f"{self.dispatch_type}-start", call)
        else:
            self.event(self.dispatch_type, call | settled)

    # --- requests, retries ----------------------------------------------------------------------

    def request_header(self, config: Json, tools: list[Json], reason: str) -> int:
        header: Json = {"config": config, "system": self._prompt, "tools": tools}
        return self.event("request/header", {"header": header, "reason": reason})

    def retry(self, data: Json) -> None:
        self.event("llm/retry", data)

    def retry_started(self, data: Json) -> None:
        self.event("llm/retry-started", data)

    def inbox(self, target: str, start: int, removed: int, added: list[Json], out: bool) -> None:
        """A splice of one inbox list; ``out`` when the removal is a cancel and no claim."""
        data: Json = {"target": target, "start": start}
        if removed:
            data["removedCount"] = removed
        data["inserted"] = [self.message(message) for message in added]
        if out:
            data["outcome"] = "canceled"
        self.event("agent/inbox/spliced", data)

    # --- compaction -----------------------------------------------------------------------------

    def compaction(self, part: str, ids: Json, data: Json) -> int:
        """``part`` is start, summary or end; ``ids`` its compaction and command id."""
        return self.event(f"compaction/{part}", self.compaction_ids(ids) | data)

    def compaction_ids(self, ids: Json) -> Json:
        """The ids that the shape gives a compaction's events."""
        return ids

    def checkpoint(self, message_id: str, content: list[Json], ids: Json, span: Span) -> int:
        """The message that takes the span's place; ``ids`` also holds the seqs of start and
        summary under ``from``. Every other one cites in ascending order, so that the shapes that
        encode ranges show them."""
        origin = [*ids["from"], *span.nodes]
        self._compactions += 1
        if self._compactions % 2:
            origin.sort()
        ids = self.compaction_ids({key: ids[key] for key in ids if key != "from"})
        source = {"kind": "plugin", "plugin": COMPACT_PLUGIN, **ids}
        message = {"id": message_id, "role": "user", "content": content, "source": source}
        return self.event("user/message", self.message(message), span, origin)

    # --- the session ----------------------------------------------------------------------------

    def fork(self) -> None:
        """What was logged so far came from the parent."""
        self.inherited = self.seq
        self.event("session/end-seed", {})

    def restart(self) -> None:
        self.event("session/end-seed", {})

    def unknown(self, kind: str, data: Json) -> None:
        """An event of a type nobody knows, marked ignorable."""
        self.log(
            {"type": kind, "seq": self.seq, "time": self.time, "data": data, "ignorable": True}
        )
