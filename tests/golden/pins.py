"""Values of deliberate differences said by hand, case by case, besides the model's.

Each pin names a golden case, the difference that asks for the value, the row (by kind and anchor)
and the fields that it must have; fields of the row itself come before those of its data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.golden.values import Finding, same

Json = Any
Node = dict[str, Any]


@dataclass(frozen=True)
class Pin:
    case: str
    reason: int
    kind: str
    anchor: int
    fields: Node
    rank: int = 0

    def check(self, doc: Node) -> list[Finding]:
        """Findings without a reason: a pin allows nothing."""
        row = next(
            (
                r
                for r in doc["rows"]
                if (r["kind"], r["anchor_seq"], r["anchor_rank"])
                == (self.kind, self.anchor, self.rank)
            ),
            None,
        )
        where = f"pin {self.reason}: {self.kind} {self.anchor}"
        if row is None:
            return [Finding(where, "a row", None)]
        told = {name: row.get(name, (row["data"] or {}).get(name)) for name in self.fields}
        return [] if same(told, self.fields) else [Finding(where, self.fields, told)]


def _pair(call: int, result: int, name: str) -> Node:
    return {"call_seq": call, "result_seq": result, "name": name, "status": "ok"}


def _joined(seq: int, status: str) -> Node:
    return {"run_seq": seq, "status": status, "visibility": "transcript"}


_REUSED = "scenario/callid_reuse_across_turns"
_MANUAL = "scenario/manual_compact_full_outcomes"
_MISMATCH = "scenario/manual_compact_sourceref_mismatch"
_LATE = "scenario_v4/v4_late_and_lost"
_TRIES = "scenario_v4/v4_attempts_and_retries"
PINS = (
    Pin(_REUSED, 1, "tool", 6, _pair(6, 8, "tool0")),
    Pin(_REUSED, 1, "tool", 7, _pair(7, 9, "tool1")),
    Pin(_REUSED, 1, "tool", 21, _pair(21, 23, "tool0")),
    Pin(_REUSED, 1, "tool", 22, _pair(22, 24, "tool1")),
    Pin(_REUSED, 1, "tool", 36, _pair(36, 37, "tool0")),
    Pin("scenario/result_before_call", 2, "tool", 6, {**_pair(6, 5, "bash"), "call_id": "late"}),
    Pin(
        "scenario/command_done_before_run",
        2,
        "command",
        12,
        {"name": "feedback", "status": "success", "text": "early", "run_seq": 12, "done_seq": 0},
    ),
    Pin(
        "scenario/command_run_twice_same_id",
        3,
        "command",
        0,
        {"command_id": "c", "name": "feedback", "status": "running", "done_seq": None},
    ),
    Pin(
        "scenario/command_run_twice_same_id",
        3,
        "command",
        24,
        {"command_id": "c", "name": "plan", "args": " again", "status": "success", "done_seq": 25},
    ),
    Pin(
        "scenario/checkpoint_without_compaction_id",
        5,
        "compaction",
        34,
        {"visibility": "transcript", "status": "landed", "summary_seq": 33, "item_count": 3},
    ),
    Pin("scenario/steering_claim_consumed_by_nonuser", 6, "user", 14, {"producer": None}),
    Pin(_LATE, 7, "tool", 10, {"visibility": "auxiliary", "status": "interrupted"}),
    Pin(
        "scenario/two_results_one_call",
        8,
        "tool",
        6,
        {"result_seq": 7, "content": [{"type": "text", "text": "result 0"}]},
    ),
    Pin(
        "scenario/checkpoint_cites_no_summary",
        9,
        "compaction",
        35,
        {"summary_seq": 34, "item_count": 3, "token_count": 2358},
    ),
    Pin("scenario/checkpoint_cites_no_summary", 9, "compaction", 38, {"summary_seq": None}),
    Pin(_MANUAL, 11, "command", 62, _joined(59, "success")),
    Pin(_MANUAL, 11, "command", 68, _joined(65, "error")),
    Pin(_MANUAL, 11, "command", 74, _joined(71, "running")),
    Pin("scenario/duplicate_commands_same_summary", 11, "command", 37, _joined(33, "success")),
    Pin("scenario/duplicate_commands_same_summary", 11, "command", 34, {"compaction": None}),
    Pin(_MISMATCH, 11, "command", 48, {"compaction": None, "source_event_seq": 45}),
    Pin(_MISMATCH, 11, "compaction", 46, {"visibility": "transcript", "summary_seq": 45}),
    Pin(_MISMATCH, 11, "compaction", 51, {"visibility": "transcript", "summary_seq": 50}),
    Pin("scenario/retry_second_attempt_only", 15, "retry", 4, {"status": "started"}),
    Pin(_LATE, 19, "assistant", 11, {"step_start_time": None, "first_token_time": 1760000000145}),
    Pin(_LATE, 19, "turn", 8, {"closing_seq": None, "ttft_ms": 29}, rank=10),
    Pin(_TRIES, 21, "assistant", 38, {"status": "interrupted"}, rank=-90),
    Pin(_TRIES, 25, "assistant", 12, {"first_token_time": 1760000000055}),
    Pin(_TRIES, 25, "turn", 14, {"ttft_ms": 41, "decode_ms": 176, "decode_tokens": 32}, rank=10),
)


def check(case: str, doc: Node) -> list[Finding]:
    return [f for pin in PINS if pin.case == case for f in pin.check(doc)]
