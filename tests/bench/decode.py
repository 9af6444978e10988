"""What decoding costs against ``json.loads`` of the same lines, in the same run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence

from schemas.inbound import read_line

_ROUNDS = 7


def measure(lines: Sequence[bytes] | None = None) -> dict[str, float]:
    """Microseconds per line, and the ratio to ``json.loads``; per event type and for all lines.

    Without ``lines``, a turn of the kinds a log is made of, weighted as they occur there.
    """
    mixed = list(lines) if lines is not None else list(_turns(200))
    figures: dict[str, float] = {}
    by_type: dict[str, list[bytes]] = {}
    for line in mixed:
        by_type.setdefault(json.loads(line)["type"], []).append(line)
    for name, some in [("mixed", mixed), *sorted(by_type.items())]:
        decode, loads = _pair(some)
        figures[f"{name} us"] = round(decode, 3)
        figures[f"{name} ratio"] = round(decode / loads, 3)
    return figures


def _pair(lines: Sequence[bytes]) -> tuple[float, float]:
    """Best of several alternating rounds, so that noise meets both alike; processor time."""
    repeat = max(1, 4000 // len(lines))
    rounds = [
        (_time(read_line, lines, repeat), _time(json.loads, lines, repeat)) for _ in range(_ROUNDS)
    ]
    return min(a for a, _ in rounds), min(b for _, b in rounds)


def _time(read: Callable[[bytes], object], lines: Sequence[bytes], repeat: int) -> float:
    start = time.process_time()
    for _ in range(repeat):
        for line in lines:
            read(line)
    return (time.process_time() - start) / (repeat * len(lines)) * 1e6


def _turns(count: int) -> Iterable[bytes]:
    """Plain turns: a prompt, a streamed step with a tool call, its result."""
    seq = 0

    def row(type_: str, data: object, **envelope: object) -> bytes:
        nonlocal seq
        seq += 1
        body = {"type": type_, "seq": seq - 1, "time": 1750302000000 + seq * 137, "data": data}
        return json.dumps(body | envelope, ensure_ascii=False, separators=(",", ":")).encode()

    append = {"surfaceOp": "append"}
    for turn in range(1, count + 1):
        place = {"turn": turn, "step": 1}
        call = f"call_{turn:08x}"
        words = f"The façade of module {turn} is read first, then its tests. ".split(" ")
        yield row("turn/start", {"turn": turn})
        text = [{"type": "text", "text": "Please look at the failing test and mend it."}]
        prompt = {"id": f"msg-{turn}", "role": "user", "content": text, "source": {"kind": "user"}}
        yield row("user/message", prompt, **append)
        yield row("step/start", place)
        first = seq
        for word in words:
            chunk = {"type": "text-delta", "index": 0, "text": word + " "}
            yield row("assistant/chunk", place | {"chunk": chunk})
        blocks = [
            {"type": "text", "text": " ".join(words)},
            {"type": "tool-call", "id": call, "name": "read", "arguments": '{"path":"a/b.py"}'},
        ]
        source = {"kind": "model", "provider": "fake", "model": "m1"}
        message = {"id": f"asst-{turn}", "role": "assistant", "content": blocks, "source": source}
        usage = {"inputTokens": 8727, "outputTokens": 42, "cacheReadTokens": 100}
        final = place | {"message": message, "usage": usage}
        yield row("assistant/message", final, sourceEventSeqs=list(range(first, seq)), **append)
        yield row("tool/call", place | {"callId": call, "name": "read", "arguments": "{}"})
        result = [{"type": "text", "text": "def read():\n    return 1\n" * 10}]
        block = {"type": "tool-result", "toolCallId": call, "content": result, "isError": False}
        wrapper = {"source": {"kind": "tool", "callId": call}, "content": [block]}
        named = wrapper | {"role": "user", "id": f"tr-{turn}"}
        yield row("tool/result", place | {"message": named}, sourceEventSeqs=[seq - 1], **append)
        yield row("step/end", place)
        yield row("turn/end", {"turn": turn, "reason": {"kind": "completed"}})


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))  # noqa: T201
