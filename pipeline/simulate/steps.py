"""One step: a model call with its stream, retries and tools (session-log.md §§2.4, 2.5, 2.7)."""

from __future__ import annotations

from .compaction import automatic, prune
from .state import CrashError, Talk
from .writer import Chunk, Json, Result

MODEL = {"kind": "model", "provider": "deepseek", "model": "deepseek-chat"}
TOOLS = ("read", "write", "run", "search", "run_code")
FAILURES: tuple[Json, ...] = (
    {"message": "overloaded", "code": "SERVER", "status": 529},
    {"message": "slow down", "code": "RATE_LIMIT", "status": 429, "providerRetryAfterMs": 500},
    {"message": "connection reset", "code": "TRANSPORT"},
    {"message": "no content", "code": "EMPTY_RESPONSE"},
)
FATAL: tuple[Json, ...] = (
    {"message": "invalid key sk-123", "code": "AUTH", "status": 401},
    {"message": "quota used up", "code": "QUOTA", "status": 402},
    {"message": "odd thing", "code": "UNKNOWN"},
)
OVERFLOW = {"message": "prompt too long", "code": "CONTEXT_WINDOW_EXCEEDED", "status": 400}
TOOL_ERRORS = (
    {"name": "FsError", "code": "FS_NOT_FOUND"},
    {"name": "SandboxError", "code": "FS_SANDBOX_DENIED"},
    {"name": "ToolError", "code": "TIMEOUT"},
)


class TurnEndsError(Exception):
    """The turn ends before its answer; ``reason`` as its ``turn/end`` carries it."""

    def __init__(self, reason: Json) -> None:
        super().__init__(reason["kind"])
        self.reason = reason


def usage(t: Talk) -> Json:
    """A usage sample; the optional buckets are sometimes missing."""
    sample = {"inputTokens": t.below(9_000), "outputTokens": t.below(900)}
    if t.rng.random() < 0.7:
        sample["cacheReadTokens"] = t.below(20_000)
    if t.rng.random() < 0.2:
        sample |= {"cacheWriteTokens": t.below(500), "reasoningTokens": sample["outputTokens"] // 2}
    return sample


def answer_blocks(t: Talk, calls: int) -> list[Json]:
    """The blocks of one answer: perhaps reasoning, perhaps text, then tool calls."""
    blocks: list[Json] = []
    if t.rng.random() < 0.3:
        blocks.append({"type": "reasoning", "text": t.words.sentence(2, 12)})
    if not calls or t.rng.random() < 0.5:
        text = t.words.blank() if t.rng.random() < 0.02 else t.words.sentence(3, 40)
        blocks.append({"type": "text", "text": text})
    for _ in range(calls):
        arguments = f'{{"path":"src/{t.below(50)}.py","n":{t.below(9)}}}'
        if t.rng.random() < 0.05:
            arguments = '{"cut'
        call = {"type": "tool-call", "id": t.new_id("call"), "name": t.pick(TOOLS)}
        blocks.append(call | {"arguments": arguments})
    return blocks


def stream_of(t: Talk, blocks: list[Json], sample: Json | None, finish: Json) -> list[Chunk]:
    """The chunks in which these blocks arrive, with their times; moves the clock."""
    chunks: list[Chunk] = []
    for index, block in enumerate(blocks):
        kind = block["type"]
        start = {"type": "block-start", "index": index, "blockType": kind}
        chunks.append((t.tick(200), start))
        base: Json = {"type": f"{kind}-delta", "index": index}
        field = "text"
        if kind == "tool-call":
            base |= {"id": block["id"], "name": block["name"]}
            field = "argumentsDelta"
        whole = block["arguments" if kind == "tool-call" else "text"]
        pieces = t.words.pieces(whole)
        pace, start_time = 1 + t.below(40), t.now
        t.now += pace * len(pieces)
        times = range(start_time + pace, t.now + 1, pace)
        chunks += [(at, base | {field: piece}) for at, piece in zip(times, pieces, strict=True)]
        chunks.append((t.now, {"type": "block-end", "index": index, "block": block}))
    if sample is not None:
        chunks.append((t.now, {"type": "usage", "usage": sample}))
    chunks.append((t.now, {"type": "finish", "reason": finish}))
    return chunks


def _send(t: Talk, chunks: list[Chunk]) -> None:
    """Log the chunks, sometimes in two batches with a steering message queued in between."""
    cut = t.below(len(chunks)) if t.maybe("steering", 0.15) else 0
    if cut:
        t.log.stream(chunks[:cut])
        t.log.time = chunks[cut - 1][0]
        message = t.user_message({"kind": "user"})
        box = t.inbox["next-step"]
        t.log.inbox("next-step", len(box), 0, [message], False)
        box.append(message)
    t.log.stream(chunks[cut:])
    t.log.time = t.now


def _failed_attempt(t: Talk, failure: Json) -> None:
    """An attempt that streamed a part and failed."""
    blocks = answer_blocks(t, 0)
    chunks = stream_of(t, blocks, usage(t), {"kind": "error", "failure": failure})
    keep = t.below(max(1, len(chunks) - 1))
    _send(t, [*chunks[:keep], chunks[-1]])
    t.log.attempt()


def _retries(t: Talk) -> None:
    """Failed attempts under one retry id; the last one goes on, or the turn ends in between."""
    retry_id = t.new_id("retry")
    for number in range(1, 2 + t.below(3)):
        failure = t.pick(FAILURES)
        _failed_attempt(t, failure)
        t.tick()
        data = {"retryId": retry_id, "turn": t.turn, "step": t.step, "provider": "deepseek"}
        data |= {"mode": "normal", "policyKey": "p1", "retry": number, "maxRetries": 5}
        t.log.retry(data | {"delayMs": 100 * number, "failure": failure})
        if t.rng.random() < 0.12:
            raise TurnEndsError({"kind": "aborted", "reason": {"kind": "user"}})
        t.tick(900)
        t.log.retry_started({"retryId": retry_id, "turn": t.turn, "step": t.step, "retry": number})


def call_model(t: Talk, calls: int) -> list[Json]:
    """Attempts until one settles; its tool-call blocks."""
    if t.maybe("retries", 0.08):
        _retries(t)
    if t.maybe("auto-compaction", 0.02):
        _failed_attempt(t, OVERFLOW)
        automatic(t)
    if t.maybe("errors", 0.03):
        failure = t.pick(FATAL)
        _failed_attempt(t, failure)
        raise TurnEndsError({"kind": "error", "error": failure})
    cut_short = t.maybe("max-tokens", 0.03)
    if cut_short:
        calls = 0
    blocks = answer_blocks(t, calls)
    sample = usage(t) if t.rng.random() < 0.9 else None
    kind = "max-tokens" if cut_short else "tool-calls" if calls else "stop"
    chunks = stream_of(t, blocks, sample, {"kind": kind})
    if t.maybe("lost-streams", 0.02):
        _send(t, chunks[: t.below(len(chunks))])
        t.log.lose_stream()
        raise CrashError
    if t.maybe("interrupts", 0.04):
        _interrupted(t, blocks, chunks)
        raise TurnEndsError({"kind": "aborted", "reason": {"kind": t.pick(("user", "parent"))}})
    _send(t, chunks)
    _settle(t, blocks, sample)
    if cut_short:
        raise TurnEndsError({"kind": "max-tokens"})
    return [block for block in blocks if block["type"] == "tool-call"]


def _settle(t: Talk, blocks: list[Json], sample: Json | None) -> None:
    message = {"id": t.new_id("asst"), "role": "assistant", "content": blocks, "source": MODEL}
    extra: Json = {}
    if sample is not None and not t.maybe("usage-in-stream", 0.1):
        extra["usage"] = sample
    t.tick()
    node = t.add(t.log.assistant(message, extra), "assistant")
    if blocks[-1]["type"] != "tool-call" and t.maybe("regenerated", 0.08):
        t.tick()
        again = message | {"id": t.new_id("asst"), "content": [t.text_block()]}
        span = t.shadow(len(t.nodes) - 1, len(t.nodes))
        node.seq = t.log.assistant(again, extra, span)


def _interrupted(t: Talk, blocks: list[Json], chunks: list[Chunk]) -> None:
    """A live cancel: the delivered text alone, without calls, flagged; an attempt if blank."""
    text = blocks[0].get("text", "")
    if not text.strip("\ufeff \n\t\u2028"):
        _send(t, [*chunks[:2], chunks[-1]])
        t.log.attempt()
        return
    pieces = [chunk["text"] for _, chunk in chunks if "text" in chunk and chunk["index"] == 0]
    pieces = pieces[: 1 + t.below(len(pieces))]
    start = chunks[0]
    part = [start, *chunks[1 : 1 + len(pieces)]]
    _send(t, part)
    content = [{"type": blocks[0]["type"], "text": "".join(pieces)}]
    message = {"id": t.new_id("asst"), "role": "assistant", "content": content, "source": MODEL}
    t.add(t.log.assistant(message, {"interrupted": True}), "assistant")


def run_tools(t: Talk, calls: list[Json]) -> None:
    """The calls of one answer as they start, their nested calls, then results in model order."""
    group = t.nodes[-1].group
    t.pending = [(call, -1) for call in calls]
    for at, call in enumerate(calls):
        t.tick()
        t.pending[at] = (call, t.log.tool_call(call))
        if call["name"] == "run_code" and t.maybe("dispatches", 0.8):
            _dispatches(t, call["id"], call["id"], 1)
        if t.maybe("crashes", 0.02):
            raise CrashError
    aborted = t.maybe("interrupts", 0.03)
    for call in calls:
        t.tick(2_000)
        _, seq = t.pending[0]
        result = _result(t, call, aborted)
        images = sum(block["type"] == "image" for block in result.content)
        logged = t.log.result(result, seq)
        t.pending.pop(0)
        t.add(logged, "result", group, spec=(t.log.place(), result), images=images)
    if aborted:
        raise TurnEndsError({"kind": "aborted", "reason": {"kind": "user"}})
    if t.maybe("prunes", 0.1):
        prune(t)


def _result(t: Talk, call: Json, aborted: bool) -> Result:
    content = [t.text_block(3, 60)]
    if t.maybe("images", 0.05):
        content.append(t.image_block())
    ids = (call["id"], t.new_id("res"))
    if aborted:
        error = {"name": "AbortError", "code": "ABORTED"}
        return Result(*ids, content, True, error)
    if t.rng.random() < 0.12:
        return Result(*ids, content, True, t.pick(TOOL_ERRORS) if t.rng.random() < 0.7 else None)
    meta = {"exitCode": 0, "path": f"src/{t.below(9)}.py"} if t.rng.random() < 0.3 else None
    return Result(*ids, content, t.pick((None, False)), None, meta)


def _dispatches(t: Talk, root: str, parent: str, depth: int) -> None:
    """Nested calls of a code call: settled, left open, or settled without a start."""
    for number in range(1, 2 + t.below(3)):
        call: Json = {"rootCallId": root, "parentCallId": parent}
        call |= {"subCallId": f"{parent}:code:{number}", "name": t.pick(TOOLS[:4])}
        call["arguments"] = {"p": t.below(9), "nested": [None, 1.5, "x"]}
        t.tick()
        if t.rng.random() < 0.95:
            t.log.dispatch(call)
        if depth < 3 and t.rng.random() < 0.2:
            _dispatches(t, root, call["subCallId"], depth + 1)
        if t.rng.random() < 0.95:
            settled = {"isError": t.rng.random() < 0.1, "content": [t.text_block(1, 8)]}
            t.log.dispatch(call, settled)
