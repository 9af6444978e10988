"""Compactions, automatic and manual, in all their outcomes, and prunes (session-log.md §4)."""

from __future__ import annotations

from .state import Node, Talk
from .writer import Json, Span

_OPENING = "Earlier conversation, compacted:\n<compacted-summary>\n"
_FAILURES = (
    "summary is not smaller than the shadowed content",
    "the model did not answer",
    "The history selected for compaction changed before it could be replaced.",
)


def automatic(t: Talk) -> None:
    """One automatic compaction in the open turn; nothing when there is too little history."""
    cuts = [cut for cut in t.cuts() if cut <= len(t.nodes) - 1]
    if len(t.nodes) < 4 or not cuts:
        return
    ids = {"compactionId": t.new_id("cmp")}
    _run(t, ids, t.turn, cuts[len(cuts) // 2 + t.below((len(cuts) + 1) // 2)])


def manual(t: Talk) -> None:
    """``/compact`` between turns: landed, failed, rejected, nothing to do, or never finished."""
    command = t.new_id("cmd")
    t.tick()
    rejected = t.maybe("failed-compaction", 0.08)
    args = " please" if rejected else ""
    run = {"commandId": command, "name": "compact", "args": args, "source": {"kind": "user"}}
    t.log.event("command/run", run)
    done: Json = {"commandId": command}
    t.tick()
    cuts = list(t.cuts())
    if rejected:
        done |= {"kind": "error", "text": "/compact takes no arguments."}
    elif len(cuts) < 3:
        done |= {"kind": "success", "text": "No compactable history yet."}
    else:
        ids = {"compactionId": t.new_id("cmp"), "sourceCommandId": command}
        summary, error = _run(t, ids, None, cuts[-2])
        if error is None:
            done |= {"kind": "success", "text": "Compacted.", "sourceEventSeq": summary}
        else:
            done |= {"kind": "error", "text": error}
    if not t.maybe("lost-streams", 0.03):
        t.tick()
        t.log.event("command/done", done)


def _run(t: Talk, ids: Json, turn: int | None, cut: int) -> tuple[int, str | None]:
    """One transaction over the first ``cut`` nodes: the summary's seq (-1 without one) and the
    failure text. Context and queued messages may land between start and summary."""
    t.tick()
    start = t.log.compaction("start", ids, {"turn": turn})
    t.tick(4_000)
    if turn is None and t.maybe("context", 0.4):
        message = t.user_message({"kind": "plugin", "plugin": "tool-jobs", "form": "notice"})
        t.add(t.log.context(message), "context")
    elif t.maybe("queue", 0.3):
        message = t.user_message({"kind": "user"})
        box = t.inbox["next-turn"]
        t.log.inbox("next-turn", len(box), 0, [message], False)
        box.append(message)
    t.tick(4_000)
    fails = t.maybe("failed-compaction", 0.2)
    error = t.pick(_FAILURES) if fails else None
    if fails and t.rng.random() < 0.7:
        t.log.compaction("end", ids, {"turn": turn, "error": error})
        return -1, error
    span = t.shadow(0, cut)
    text = t.words.sentence(8, 40)
    summary = t.log.compaction("summary", ids, _summary(t, text, span))
    if not fails:
        _land(t, ids | {"from": [start, summary]}, text, span)
    t.tick()
    end: Json = {"turn": turn}
    if error is not None:
        end["error"] = error
    t.log.compaction("end", ids, end)
    return summary, error


def _summary(t: Talk, text: str, span: Span) -> Json:
    blocks: list[Json] = [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}]
    if t.rng.random() < 0.2:
        blocks.insert(1, {"type": "reasoning", "text": "not part of it"})
    data: Json = {"summary": blocks, "shadowedRange": {"start": span.first, "end": span.last}}
    data |= {"shadowedSeqs": list(span.nodes), "shadowedTokenCount": 50 + t.below(5_000)}
    data |= {"provider": "deepseek", "model": "deepseek-chat"}
    if t.rng.random() < 0.7:
        data["usage"] = {"inputTokens": t.below(900), "outputTokens": t.below(400)}
    return data


def _land(t: Talk, ids: Json, text: str, span: Span) -> None:
    content = [
        {"type": "text", "text": _OPENING},
        {"type": "text", "text": text},
        {"type": "text", "text": "\n</compacted-summary>"},
    ]
    seq = t.log.checkpoint(t.new_id("msg"), content, ids, span)
    t.nodes[: len(span.nodes)] = [Node(seq, "checkpoint", t.new_group())]


def prune(t: Talk) -> None:
    """Cut the middle out of one or two old results (session-log.md §4.4); needs an open turn."""
    old = [node for node in t.nodes if node.spec is not None]
    for node in old[: 1 + t.below(2)]:
        if node.spec is None:
            continue
        place, result = node.spec
        t.tick()
        price = {"shadowedRange": {"start": node.seq, "end": node.seq}}
        t.log.event(
            "compaction/prune",
            price | {"shadowedSeqs": [node.seq], "shadowedTokenCount": t.below(400)},
        )
        content = [_pruned(block) for block in result.content]
        copy = type(result)(
            result.call_id,
            result.message_id,
            content,
            result.is_error,
            result.error,
            result.meta,
        )
        node.seq = t.log.result(copy, node.seq, place)
        node.spec = (place, copy)


def _pruned(block: Json) -> Json:
    text = block.get("text")
    if not isinstance(text, str):
        return block
    return block | {"text": f"{text[:8]}\n\n[... tool result middle pruned ...]\n\n{text[-8:]}"}
