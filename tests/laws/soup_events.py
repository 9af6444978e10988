"""What soup is made of: one maker per kind of event, from tiny pools of ids, turns and steps, so
that everything meets everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

Json = dict[str, Any]
Maker = Callable[["Pot"], Json]

TEXTS = ("", " ", "\ufeff", "hello", "ab c", "é🙂", "\ud83d", "\ude42!", "x" * 40, "\u2028", "\x1f")
CALLS = ("a", "b", "")
IDS = ("m1", "m2", "m3")


class Pot:
    """What one line's maker may look at: its own randomness and how far the log is."""

    def __init__(self, number: int, seq: int, surface: list[int]) -> None:
        self.rng = Random(number)
        self.seq = seq
        self.surface = surface  #: seqs of earlier lines that carry a surfaceOp

    def pick(self, options: Any) -> Any:
        return options[int(self.rng.random() * len(options))]

    def chance(self, odds: float) -> bool:
        return self.rng.random() < odds

    def place(self) -> Json:
        return {"turn": 1 + int(self.chance(0.3)), "step": 1 + int(self.chance(0.3))}

    def text(self) -> str:
        return str(self.pick(TEXTS))

    def earlier(self) -> int:
        """The seq of an earlier surface line, most often a recent one."""
        if not self.surface:
            return max(0, self.seq - 1)
        back = min(len(self.surface), 1 + int(self.rng.random() ** 2 * 6))
        return self.surface[-back]

    def usage(self) -> Json:
        return {"inputTokens": self.pick((0, 5, 100)), "outputTokens": self.pick((0, 3))}


# --- the vocabulary -------------------------------------------------------------------------------


def _turn(p: Pot) -> Json:
    turn = p.place()["turn"]
    if p.chance(0.5):
        return {"type": "turn/start", "data": {"turn": turn}}
    failure = {"message": "no", "code": p.pick(("AUTH", "SERVER"))}
    reasons = (
        {"kind": "completed"},
        {"kind": "interrupted"},
        {"kind": "max-tokens"},
        {"kind": "error", "error": failure},
        {"kind": "error", "step": 1, "failure": failure},
        {"kind": "aborted", "reason": {"kind": "user"}},
        None,
    )
    reason = p.pick(reasons)
    data = {"turn": turn} if reason is None else {"turn": turn, "reason": reason}
    return {"type": "turn/end", "data": data}


def _step(p: Pot) -> Json:
    return {"type": p.pick(("step/start", "step/end")), "data": p.place()}


def _chunk_of(p: Pot) -> Json:
    index = int(p.chance(0.4))
    kind = p.pick(("text", "text", "reasoning", "tool-call"))
    what = p.pick(("start", "delta", "delta", "delta", "delta", "end", "usage", "finish"))
    if what == "start":
        return {"type": "block-start", "index": index, "blockType": kind}
    if what == "end":
        return {"type": "block-end", "index": index, "block": _block(p, kind)}
    if what == "usage":
        return {"type": "usage", "usage": p.usage()}
    if what == "finish":
        return {"type": "finish", "reason": {"kind": "stop"}}
    if kind == "tool-call":
        delta = {"type": "tool-call-delta", "index": index, "id": p.pick(CALLS)}
        if p.chance(0.5):
            delta["name"] = p.pick(("read", "", "run"))
        return delta | {"argumentsDelta": p.text()}
    return {"type": f"{kind}-delta", "index": index, "text": p.text()}


def _block(p: Pot, kind: str) -> Json:
    if kind == "tool-call":
        return {"type": kind, "id": p.pick(CALLS), "name": "read", "arguments": p.text()}
    return {"type": kind, "text": p.text()}


def _chunk(p: Pot) -> Json:
    return {"type": "assistant/chunk", "data": p.place() | {"chunk": _chunk_of(p)}}


def _packed(p: Pot) -> Json:
    count = 1 + int(p.rng.random() * 4)
    texts = [p.text() for _ in range(count)]
    data = p.place() | {"index": int(p.chance(0.3)), "dt": [p.pick((0, 3, -2))] * (count - 1)}
    kind = p.pick(("text", "reasoning", "tool-call"))
    if kind != "tool-call":
        return {"type": f"{kind}-chunks", "data": data | {"texts": texts}}
    data |= {"id": p.pick(CALLS), "args": texts}
    if p.chance(0.5):
        data["name"] = p.pick(("read", ""))
    return {"type": "tool-call-chunks", "data": data}


def _stream(p: Pot) -> list[Json]:
    records: list[Json] = []
    for _ in range(int(p.rng.random() * 4)):
        chunk = _chunk_of(p)
        if chunk["type"] == "text-delta" and p.chance(0.7):
            run = {"index": chunk["index"], "dt": [5], "texts": [chunk["text"], p.text()]}
            records.append({"type": "text-chunks", "time0": p.seq * 9, **run})
        else:
            records.append({"type": "chunk", "time": p.seq * 9 + 1, "chunk": chunk})
    return records


def _assistant(p: Pot) -> Json:
    content = [_block(p, p.pick(("text", "reasoning", "tool-call", "tool-call")))]
    content = content * p.pick((0, 1, 1, 1, 2))
    source = {"kind": "model", "provider": "p", "model": "m"}
    message = {"id": p.pick(IDS), "role": "assistant", "content": content, "source": source}
    data = p.place() | {"message": message}
    if p.chance(0.4):
        data["usage"] = p.usage()
    if p.chance(0.2):
        data["interrupted"] = True
    if p.chance(0.5):
        data["stream"] = _stream(p)
    return _marked(p, {"type": "assistant/message", "data": data})


def _attempt(p: Pot) -> Json:
    return {"type": "assistant/attempt", "data": p.place() | {"stream": _stream(p)}}


def _user(p: Pot) -> Json:
    sources = (
        {"kind": "user"},
        {"kind": "user"},
        {"kind": "plugin", "plugin": "compact", "compactionId": p.pick(IDS)},
        {"kind": "compact-checkpoint", "compactionId": p.pick(IDS), "sourceCommandId": p.pick(IDS)},
        {"kind": "skill-invocation", "name": "s", "form": "instructions"},
    )
    content = [{"type": "text", "text": p.text()}]
    data = {"id": p.pick(IDS), "role": "user", "content": content, "source": p.pick(sources)}
    kind = "user/message" if p.chance(0.9) else p.pick(("steering/message", "context/message"))
    return _marked(p, {"type": kind, "data": data})


def _checkpoint(p: Pot) -> Json:
    source: Json = {"kind": "compact-checkpoint"}
    if p.chance(0.8):
        source["compactionId"] = p.pick(IDS)
    if p.chance(0.4):
        source["sourceCommandId"] = p.pick(IDS)
    data = {"id": p.pick(IDS), "role": "user", "content": [], "source": source}
    record: Json = {"type": "user/message", "data": data}
    cited = [seq for seq in range(max(0, p.seq - 4), p.seq) if p.chance(0.6)]
    return _replacing(p, record, cited)


def _system(p: Pot) -> Json:
    kind = p.pick(("system", "developer"))
    message = {"id": p.pick(IDS), "role": kind, "content": [], "source": {"kind": "system-prompt"}}
    if p.chance(0.7):
        message["content"] = [{"type": "text", "text": p.text()}]
    return _marked(p, {"type": f"{kind}/message", "data": p.place() | {"message": message}})


def _call(p: Pot) -> Json:
    data = p.place() | {"callId": p.pick(CALLS), "name": "read", "arguments": p.text()}
    return {"type": "tool/call", "data": data}


def _result(p: Pot) -> Json:
    call, content = p.pick(CALLS), [{"type": "text", "text": p.text()}]
    data = p.place()
    shape = p.pick(("flat", "wrapped", "direct"))
    if shape == "flat":
        data |= {"callId": call, "content": content, "isError": p.chance(0.3)}
    elif shape == "wrapped":
        block = {"type": "tool-result", "toolCallId": call, "content": content}
        source = {"kind": "tool", "callId": call}
        data["message"] = {"id": "r", "role": "user", "source": source, "content": [block]}
    else:
        source = {"kind": "tool", "callId": call}
        data["message"] = {"id": "r", "role": "tool", "source": source, "toolCallId": call}
        data["message"] |= {"content": content, "isError": p.chance(0.3)}
    return _marked(p, {"type": "tool/result", "data": data})


def _dispatch(p: Pot) -> Json:
    data = {"parentCallId": p.pick(("a", "b", "s1")), "subCallId": p.pick(("s1", "s2", "a"))}
    if p.chance(0.9):
        data["rootCallId"] = p.pick(("a", "b"))
    data |= {"name": "read", "arguments": {"p": 1}}
    if p.chance(0.5):
        return {
            "type": p.pick(("tool/code-dispatch-start", "tool/ptc-dispatch-start")),
            "data": data,
        }
    return {"type": "tool/ptc-dispatch", "data": data | {"isError": p.chance(0.3), "content": []}}


def _retry(p: Pot) -> Json:
    data = p.place() | {"retry": 1 + int(p.chance(0.4))}
    if p.chance(0.9):
        data["retryId"] = p.pick(IDS)
    if p.chance(0.4):
        return {"type": "llm/retry-started", "data": data}
    data |= {"provider": "p", "mode": "normal", "maxRetries": 3, "delayMs": 5}
    return {"type": "llm/retry", "data": data | {"failure": {"message": "no", "code": "SERVER"}}}


def _inbox(p: Pot) -> Json:
    data: Json = {"target": p.pick(("next-step", "next-turn"))}
    data |= {"start": p.pick((0, 0, 1, -1, 9)), "removedCount": p.pick((0, 1, 2, -1))}
    data["inserted"] = [{"id": p.pick(IDS)}] * p.pick((0, 1, 1, 2))
    if p.chance(0.3):
        data["outcome"] = "canceled"
    return {"type": "agent/inbox/spliced", "data": data}


def _command(p: Pot) -> Json:
    data: Json = {"commandId": p.pick(IDS)}
    if p.chance(0.5):
        return {"type": "command/run", "data": data | {"name": p.pick(("compact", "goal"))}}
    data |= {"kind": p.pick(("success", "success", "error")), "text": p.text()}
    if p.chance(0.6):
        data["sourceEventSeq"] = max(0, p.seq - p.pick((1, 2, 3, 4)))
    return {"type": "command/done", "data": data}


def _compaction(p: Pot) -> Json:
    part = p.pick(("start", "summary", "summary", "end"))
    data: Json = {"turn": p.pick((1, None))}
    if p.chance(0.9):
        data["compactionId"] = p.pick(IDS)
    if p.chance(0.4):
        data["sourceCommandId"] = p.pick(IDS)
    if part == "summary":
        data |= {"summary": [{"type": "text", "text": p.text()}], "shadowedSeqs": [1, 2]}
        data |= {"shadowedTokenCount": 7, "usage": p.usage()}
    elif part == "end" and p.chance(0.4):
        data["error"] = "no"
    name = "compact" if p.chance(0.1) else "compaction"
    return {"type": f"{name}/{part}", "data": data}


def _other(p: Pot) -> Json:
    options: tuple[Json, ...] = (
        {"type": "session/end-seed", "data": {}},
        {"type": "session/end-seed", "data": {"inherited": True}},
        {"type": "session/title", "data": {"title": p.text()}},
        {"type": "acme/odd", "data": None, "ignorable": True},
        {"type": "acme/odd", "data": 1},
        {"type": "request/context", "data": {"provider": "p", "model": "m", "contextWindow": 9}},
        {"type": "image/offload", "data": {"targets": [{"seq": p.earlier(), "imageIndexes": [0]}]}},
        {"type": "todo/write", "data": {"todos": []}, "surfaceOp": "append"},
        {"type": "todo/write", "data": {"todos": []}},
    )
    chosen: Json = p.pick(options)
    return chosen


def _marked(p: Pot, record: Json) -> Json:
    """A surface event with an append, a replacement, or (rarely) something wrong."""
    roll = p.rng.random()
    if roll < 0.75:
        return record | {"surfaceOp": "append"}
    if roll < 0.95:
        return _replacing(p, record, [])
    part, other = {"op": "replace", "start": 1}, {"op": "append", "start": 1, "end": 1}
    odd = p.pick((None, "replace", part, other, "missing"))
    return record if odd == "missing" else record | {"surfaceOp": odd}


def _replacing(p: Pot, record: Json, cited: Iterable[int]) -> Json:
    first, last = p.earlier(), p.earlier()
    if p.chance(0.6):
        last = first
    if p.chance(0.9) and first > last:
        first, last = last, first
    low, high = min(first, last), max(first, last)
    sources = sorted({*cited, *(seq for seq in p.surface if low <= seq <= high)})
    if p.chance(0.05):
        sources = sources[1:]
    keys = p.pick((("start", "end"), ("startSeq", "endSeq")))
    op = {"op": "replace", keys[0]: first, keys[1]: last}
    return record | {"surfaceOp": op, "sourceEventSeqs": sources}


_MAKERS: tuple[tuple[Maker, int], ...] = (
    (_turn, 3),
    (_step, 3),
    (_chunk, 5),
    (_packed, 2),
    (_assistant, 4),
    (_attempt, 1),
    (_user, 4),
    (_checkpoint, 3),
    (_system, 1),
    (_call, 3),
    (_result, 3),
    (_dispatch, 2),
    (_retry, 2),
    (_inbox, 2),
    (_command, 3),
    (_compaction, 3),
    (_other, 2),
)
WHEEL = tuple(maker for maker, weight in _MAKERS for _ in range(weight))
