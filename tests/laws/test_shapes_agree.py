"""Law 12: one conversation in every format shape gives equal rows and messages, apart from seqs and
ids made from seqs, and from what a shape cannot say (named here, each with its reason)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.documents import fold_lines
from pipeline.simulate import PORTABLE, SHAPES, simulate
from tests.strategies import seeds

REFERENCE = "v4"
SEQS = {
    "session",
    "seq",
    "key",
    "anchor_seq",
    "rev",
    "announced_by",
    "call_seq",
    "result_seq",
    "start_seq",
    "end_seq",
    "run_seq",
    "done_seq",
    "source_event_seq",
    "checkpoint_seq",
    "summary_seq",
    "closing_seq",
}
#: v4 spells producers anew (session-log.md §6.4); the pre-release had neither message ids nor
#: compaction ids, so an automatic compaction shows none, and failures were spelled otherwise.
PRODUCERS = {"source", "producer"}
PRE_ONLY = {"message_id", "compaction_id", "trigger", "reason_detail", "source_event_seq", "id"}


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != REFERENCE])
@given(seeds, st.integers(1, 5))
def test_shapes_agree(shape: str, seed: int, exchanges: int) -> None:
    left, right = (document(seed, exchanges, which) for which in (shape, REFERENCE))
    pre = shape == "pre"
    assert rows(left, pre) == rows(right, pre)
    assert messages(left, pre) == messages(right, pre)
    assert left["faults"] == right["faults"] == []
    assert left["surface"]["generation"] == right["surface"]["generation"] - heads(right)


def document(seed: int, exchanges: int, shape: str) -> dict[str, Any]:
    features = PORTABLE - {"retries"} if "pre" == shape else PORTABLE
    session = simulate(seed, exchanges=exchanges, shape=shape, features=PORTABLE)
    assert features
    return json.loads(fold_lines(session.lines))


def heads(document: dict[str, Any]) -> int:
    """Rewrites of the system prompt, which only v3 and v4 log."""
    prompts = {r["seq"] for r in document["rows"] if r["kind"] == "system"}
    return sum(bool(prompts & set(r["shadowed"])) for r in document["surface"]["replacements"])


def rows(document: dict[str, Any], pre: bool) -> list[Any]:
    kept = [row for row in document["rows"] if row["kind"] != "system"]
    if pre:  # a retry without an id has no row
        kept = [row for row in kept if row["kind"] != "retry"]
    return [strip(row, pre) for row in kept]


def strip(value: Any, pre: bool) -> Any:
    """A row without what differs by design; nested calls are named ``:code:`` before v3."""
    if isinstance(value, dict):
        left_out = SEQS | PRODUCERS | (PRE_ONLY if pre else set())
        return {key: strip(item, pre) for key, item in value.items() if key not in left_out}
    if isinstance(value, list):
        return [strip(item, pre) for item in value]
    return value.replace(":ptc:", ":code:") if isinstance(value, str) else value


def messages(document: dict[str, Any], pre: bool) -> list[Any]:
    """The request history, a tool result as (call, content, error) in whatever wrapping."""
    plain = []
    for message in document["surface"]["messages"]:
        if message["role"] == "system":
            continue
        if message["role"] == "tool":
            call, content, error = message["toolCallId"], message["content"], message.get("isError")
            plain.append(["tool", call, content, bool(error)])
        elif message["content"] and message["content"][0]["type"] == "tool-result":
            block = message["content"][0]
            plain.append(["tool", block["toolCallId"], block["content"], bool(block.get("isError"))])
        else:
            source = message["source"].get("form"), message["source"].get("summary")
            plain.append([message["role"], None if pre else message["id"], message["content"]])
            plain[-1].append(source)
    return plain
