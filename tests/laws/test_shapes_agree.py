"""Law 12: one conversation in every format shape gives equal rows and messages, apart from seqs and
ids made from seqs, and from what a shape cannot say (named here, each with its reason)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.documents import fold_lines
from pipeline.simulate import PORTABLE, SHAPES, simulate
from tests.laws.packed import comparable, unpacked
from tests.strategies import seeds, simulated, soups

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
PRODUCERS = {"source", "producer"}  #: v4 spells them anew (session-log.md §6.4)
#: The pre-release had no message ids, and spelled failures and cancels otherwise.
PRE_ONLY = {"message_id", "reason_detail"}
#: Nor had it ids that tie a compaction's events together.
PRE_COMPACTION = {"compaction_id", "trigger", "start_time", "end_time", "duration_ms"}


@given(seeds, st.integers(1, 5), st.sampled_from([s for s in SHAPES if s != REFERENCE]))
def test_shapes_agree(seed: int, exchanges: int, shape: str) -> None:
    left, right = (document(seed, exchanges, which) for which in (shape, REFERENCE))
    pre = shape == "pre"
    assert rows(left, pre) == rows(right, pre)
    assert messages(left, pre) == messages(right, pre)
    assert left["faults"] == right["faults"] == []
    assert replaced(left) == replaced(right)


@given(simulated(most=80).map(lambda session: session.lines) | soups(gaps=False))
def test_a_packed_row_is_its_members(log: list[bytes]) -> None:
    """A run folded as a run leaves what its members, one event each, leave (§2)."""
    packed, members = (json.loads(fold_lines(lines)) for lines in (log, unpacked(log)))
    assert comparable(packed) == comparable(members)


def document(seed: int, exchanges: int, shape: str) -> dict[str, Any]:
    session = simulate(seed, exchanges=exchanges, shape=shape, features=PORTABLE)
    folded: dict[str, Any] = json.loads(fold_lines(session.lines))
    return folded


def replaced(document: dict[str, Any]) -> list[int]:
    """How many nodes each replacement shadowed; those of the prompt, which only v3 and v4 log as a
    message, aside."""
    prompts = {row["anchor_seq"] for row in document["rows"] if row["kind"] == "system"}
    sizes = []
    for landed in document["surface"]["replacements"]:
        if prompts & set(landed["shadowed"]):
            prompts.add(landed["seq"])
        else:
            sizes.append(len(landed["shadowed"]))
    return sizes


def rows(document: dict[str, Any], pre: bool) -> list[Any]:
    """The rows that the shape can have, without what differs by design."""
    kept = [row for row in document["rows"] if row["kind"] != "system"]
    if pre:
        kept = [row for row in kept if pre_has(row)]
    return [strip(row, SEQS | PRODUCERS | (PRE_ONLY if pre else set()), pre) for row in kept]


def pre_has(row: dict[str, Any]) -> bool:
    """A retry without an id has no row, nor has a compaction without one that did not land."""
    landed = row["kind"] != "compaction" or row["visibility"] == "transcript"
    return bool(row["kind"] != "retry" and landed)


def strip(value: Any, left_out: set[str], pre: bool) -> Any:
    """A row without some of its fields; nested calls are named ``:code:`` before v3."""
    if isinstance(value, dict):
        if pre and "token_count" in value:
            left_out = left_out | PRE_COMPACTION
        return {k: strip(item, left_out, pre) for k, item in value.items() if k not in left_out}
    if isinstance(value, list):
        return [strip(item, left_out, pre) for item in value]
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
            plain.append(
                ["tool", block["toolCallId"], block["content"], bool(block.get("isError"))]
            )
        else:
            source = message["source"].get("form"), message["source"].get("summary")
            plain.append([message["role"], None if pre else message["id"], message["content"]])
            plain[-1].append(source)
    return plain
