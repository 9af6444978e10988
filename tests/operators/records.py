"""Records of a session log for the tests of the rooms: one maker per kind of event."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
PACKED = {"text-chunks": "texts", "reasoning-chunks": "texts", "tool-call-chunks": "args"}


def record(type_: str, data: Any = None, **envelope: Any) -> Json:
    return {"type": type_, "data": {} if data is None else data, **envelope}


def appended(type_: str, data: Any, **envelope: Any) -> Json:
    return record(type_, data, **{"surfaceOp": "append", **envelope})


def replacing(made: Json, start: int, end: int, cites: list[Any] | None = None) -> Json:
    """The same record as a replacement; it cites the ends unless told what."""
    cites = sorted({start, end}) if cites is None else cites
    op = {"op": "replace", "start": start, "end": end}
    return made | {"surfaceOp": op, "sourceEventSeqs": cites}


def turn_start(turn: int | None = 1, **more: Any) -> Json:
    return record("turn/start", {"turn": turn}, **more)


def turn_end(turn: int | None = 1, reason: Any = "completed", **more: Any) -> Json:
    kind = {"kind": reason} if isinstance(reason, str) else reason
    return record("turn/end", {"turn": turn, "reason": kind}, **more)


def step_start(step: int = 1, turn: int | None = 1, **more: Any) -> Json:
    return record("step/start", {"turn": turn, "step": step}, **more)


def step_end(step: int = 1, turn: int | None = 1, **more: Any) -> Json:
    return record("step/end", {"turn": turn, "step": step}, **more)


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def announced(call: str, name: str = "read") -> Json:
    return {"type": "tool-call", "id": call, "name": name, "arguments": "{}"}


def user(words: str = "hello", id_: str = "m-1", source: Any = None, **more: Any) -> Json:
    source = {"kind": "user"} if source is None else source
    data = {"id": id_, "role": "user", "content": [text(words)], "source": source}
    return appended("user/message", data, **more)


def say(
    words: str = "",
    *blocks: Json,
    calls: tuple[str, ...] = (),
    step: int | None = 1,
    turn: int | None = 1,
    usage: Json | None = None,
    interrupted: bool = False,
    stream: list[Json] | None = None,
    **more: Any,
) -> Json:
    """An assistant message; no words and no blocks: empty content."""
    content = [*([text(words)] if words else []), *blocks, *map(announced, calls)]
    source = {"kind": "model", "provider": "p", "model": "m"}
    message = {"id": "a", "role": "assistant", "content": content, "source": source}
    data: Json = {"turn": turn, "step": step, "message": message}
    if usage is not None:
        data["usage"] = usage
    if interrupted:
        data["interrupted"] = True
    if stream is not None:
        data["stream"] = stream
    return appended("assistant/message", data, **more)


def system(words: str = "be good", role: str = "system", **more: Any) -> Json:
    message = {"id": "y", "role": role, "content": [text(words)], "source": {"kind": "k"}}
    data = {"turn": 1, "step": 1, "message": message}
    return appended(f"{role}/message", data, **more)


def chunk(chunk: Json, step: int = 1, turn: int = 1, **more: Any) -> Json:
    return record("assistant/chunk", {"turn": turn, "step": step, "chunk": chunk}, **more)


def delta(words: str, index: int = 0, kind: str = "text", **place: Any) -> Json:
    return chunk({"type": f"{kind}-delta", "index": index, "text": words}, **place)


def call_delta(
    arguments: str = "", index: int = 0, id_: str = "a", name: str | None = None, **place: Any
) -> Json:
    made: Json = {"type": "tool-call-delta", "index": index, "id": id_}
    if name is not None:
        made["name"] = name
    return chunk(made | {"argumentsDelta": arguments}, **place)


def block_start(kind: str = "text", index: int = 0, **place: Any) -> Json:
    return chunk({"type": "block-start", "index": index, "blockType": kind}, **place)


def block_end(block: Json, index: int = 0, **place: Any) -> Json:
    return chunk({"type": "block-end", "index": index, "block": block}, **place)


def usage_chunk(output: int, **place: Any) -> Json:
    return chunk({"type": "usage", "usage": spent(output)}, **place)


def spent(output: int, prompt: int = 10) -> Json:
    return {"inputTokens": prompt, "outputTokens": output}


def packed(*words: str, step: int = 1, turn: int = 1, **more: Any) -> Json:
    data = {"turn": turn, "step": step, "index": 0, "dt": [1] * (len(words) - 1)}
    return record("text-chunks", data | {"texts": list(words)}, **more)


def attempt(*stream: Json, step: int = 1, turn: int = 1, **more: Any) -> Json:
    data = {"turn": turn, "step": step, "stream": list(stream)}
    return record("assistant/attempt", data, **more)


def streamed(chunk: Json, time: int = 5) -> Json:
    return {"type": "chunk", "time": time, "chunk": chunk}


def call(id_: Any = "a", step: int | None = 1, turn: int | None = 1, **more: Any) -> Json:
    data = {"turn": turn, "step": step, "callId": id_, "name": "read", "arguments": "{}"}
    return record("tool/call", data, **more)


def result(
    id_: str = "a",
    words: str = "done",
    step: int | None = 1,
    turn: int | None = 1,
    failed: bool = False,
    **more: Any,
) -> Json:
    data = {"turn": turn, "step": step, "callId": id_, "content": [text(words)], "isError": failed}
    return appended("tool/result", data, **more)


def nested(
    sub: str = "s", parent: str | None = "a", root: str | None = "a", settled: bool = False
) -> Json:
    data: Json = {"rootCallId": root, "parentCallId": parent, "subCallId": sub, "name": sub}
    data |= {"arguments": {}}
    if settled:
        data |= {"isError": False, "content": [text(sub)]}
    return record("tool/code-dispatch" if settled else "tool/code-dispatch-start", data)


def retry(number: int = 1, id_: str | None = "r", step: int = 1, turn: int = 1) -> Json:
    data = {"retryId": id_, "turn": turn, "step": step, "provider": "p", "mode": "normal"}
    return record("llm/retry", data | {"retry": number, "delayMs": 7, "failure": {"code": "X"}})


def retry_started(number: int = 1, id_: str = "r", step: int = 1, turn: int = 1) -> Json:
    data = {"retryId": id_, "turn": turn, "step": step, "retry": number}
    return record("llm/retry-started", data)


def splice(
    *inserted: str,
    to: str = "next-step",
    start: int = 0,
    removed: int = 0,
    canceled: bool = False,
) -> Json:
    messages = [{"id": each, "role": "user", "content": []} for each in inserted]
    data = {"target": to, "start": start, "removedCount": removed, "inserted": messages}
    return record("agent/inbox/spliced", data | ({"outcome": "canceled"} if canceled else {}))


def run(id_: str | None = "c", name: str = "compact", args: str | None = None) -> Json:
    data = {"commandId": id_, "name": name, "source": {"kind": "user"}}
    return record("command/run", data if args is None else data | {"args": args})


def done(
    id_: str | None = "c", source: int | None = None, kind: str = "success", words: str = "ok"
) -> Json:
    data = {"commandId": id_, "kind": kind, "text": words}
    return record("command/done", data if source is None else data | {"sourceEventSeq": source})


def _named(id_: str | None, command: str | None) -> Json:
    data = {} if id_ is None else {"compactionId": id_}
    return data if command is None else data | {"sourceCommandId": command}


def compaction_start(id_: str | None = "k", command: str | None = None) -> Json:
    return record("compaction/start", _named(id_, command) | {"turn": None})


def summary(
    words: str = "sum", id_: str | None = "k", command: str | None = None, **data: Any
) -> Json:
    fields = {"summary": [text(words)], "shadowedSeqs": [0], "shadowedTokenCount": 9}
    return record("compaction/summary", _named(id_, command) | fields | data)


def compaction_end(
    id_: str | None = "k", error: str | None = None, command: str | None = None
) -> Json:
    data = _named(id_, command) | {"turn": None}
    return record("compaction/end", data if error is None else data | {"error": error})


def checkpoint(
    start: int,
    end: int,
    cites: list[Any] | None = None,
    id_: str | None = "k",
    command: str | None = None,
) -> Json:
    """A landed checkpoint over the nodes from ``start`` to ``end``."""
    source = {"kind": "compact-checkpoint"} | _named(id_, command)
    return replacing(user("framed", id_="k-1", source=source), start, end, cites)
