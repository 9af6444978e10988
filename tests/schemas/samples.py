"""One change of every shape, written once: what the golden bytes in ``golden/`` were made from."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from operators import changes as c
from schemas.deadletter import DeadLetter, Header

ID = "0199d3b2-5b1c-7c41-9f1c-7d4d0e0a1b2c"
TIME = 1_764_500_000_000
TEXT = Raw('[{"type":"text","text":"Grüße \\ud83d"}]'.encode())
COMPACTION = c.CompactionData(
    "c-1", "manual", "landed", 40, "what happened", 39, 31, 5200, 37, TIME, TIME + 900, 900, None
)
USAGE = c.UsageData(1200, 88, 900, 12, 0)


def row(kind: str, data: c.RowData | None, *, anchor: int = 7, **more: Any) -> c.TranscriptRow:
    fields: dict[str, Any] = {
        "session": ID, "epoch": 2, "seq": anchor, "key": f"{kind}:{anchor}", "kind": kind,
        "anchor_seq": anchor, "anchor_rank": 0, "rev": anchor, "visibility": "transcript",
        "turn": 3, "step": 1, "time": TIME, "deleted": False, "truncated": (), "data": data,
    }  # fmt: skip
    return c.TranscriptRow(**(fields | more))


NESTED = c.SubCall("n-2", "read", Raw(b'{"path":"b"}'), "error", None, Raw(b'{"name":"E"}'), 12, 14)
CHILD = c.SubCall("n-1", None, None, "ok", TEXT, None, 11, 15, (NESTED,))

SAMPLES: dict[str, list[Any]] = {
    "surface": [
        c.SurfaceChange(ID, 0, 5, "append", "user/message", TIME, position=4, message=TEXT),
        c.SurfaceChange(
            ID, 0, 40, "replace", "user/message", TIME, 18, 3, (18, 4, 3), 2, 6, TEXT, (), True
        ),
        c.SurfaceChange(
            ID, 1, 41, "amend", "image/offload", None, generation=6,
            targets=(c.Target(5, (0, 2)), c.Target(18, ())),
        ),
        c.SurfaceChange(ID, 2, -1, "reset"),
    ],
    "transcript": [
        row("user", c.MessageData("m-1", TEXT, Raw(b'{"kind":"user"}'), None, None)),
        row("context", c.MessageData(None, TEXT, Raw(b'{"kind":"plugin"}'), "AGENTS.md", "full")),
        row(
            "assistant",
            c.AssistantData(
                "settled", "m-2", TEXT, Raw(b'{"outputTokens":9}'), "deepseek", "chat", TIME,
                TIME + 5, TIME + 70,
            ),
        ),
        row(
            "assistant", c.AssistantData("interrupted"), anchor_rank=-90, time=None, turn=None,
            step=None,
        ),
        row(
            "tool",
            c.ToolData(
                "call-1", "bash", '{"command":"ls"}', "ok", TEXT, False, None, Raw(b"{}"), 7, TIME,
                16, -80, TIME + 60, 6, (CHILD,),
            ),
        ),
        row(
            "command",
            c.CommandData("k-1", "compact", "", "success", "done", 36, 41, TIME, 39, COMPACTION),
        ),
        row("compaction", COMPACTION),
        row(
            "retry",
            c.RetryData(
                "r-1", "deepseek", "auto", "started",
                (
                    c.Attempt(8, TIME, 1, 5, 1000, Raw(b'{"code":"RATE"}')),
                    c.Attempt(9, None, None, None, None),
                ),
            ),
        ),
        row("turn-error", c.TurnErrorData(None, "AUTH", True)),
        row("max-tokens", c.MaxTokensData(7), anchor_rank=5),
        row(
            "turn",
            c.TurnData(
                "completed", Raw(b'{"kind":"completed"}'), 2, 1, 0, USAGE, TIME, TIME + 90, 5, 65,
                88, 7,
            ),
            anchor_rank=10, visibility="auxiliary",
        ),
        row("gap", c.GapData(3, 6), visibility="auxiliary"),
        row("unknown", c.UnknownData("acme/ping", True), visibility="auxiliary"),
        row("compaction", None, deleted=True, rev=2**40, seq=2**40),
        row(
            "tool", c.ToolData("call-2", None, None, "error", Raw(b'"cut"'), True),
            truncated=(c.Truncated("content", 9_000_000),),
        ),
    ],
    "partials": [
        c.PartialText(ID, 0, 9, "assistant:6", 3, 1, 0, "text", 65_536, "wörd ", 8, 9, TIME),
        c.PartialText(
            ID, 0, 9, "assistant:6", None, None, 2, "tool-call", 0, '{"a', 9, 9, None
        ),
    ],
    "overview": [
        c.SessionOverview(
            ID, 2, 41, 41, "A title", "/home/me", "parent", "subagent", 1, TIME,
            ("packed-rows", "replace:start"), "deepseek", "chat", "running", 3, 42, TIME,
            {"user": 4, "turns_completed": 2}, 17, 6, USAGE, c.UsageData(), 128_000, 4_000, 900,
            60, {"gap": 1, "reader:toolPairing": 2}, 12, 2, 5, 700, 4, 900, 88, USAGE,
            (
                c.BilledData("deepseek", "chat", USAGE, c.UsageData(), TIME, TIME + 9),
                c.BilledData(None, None, c.UsageData(), USAGE, None, None),
            ),
            120, 4_000, 9_000, 9_120, -5, 2_100, 2_400,
            (c.CacheLoss("compaction", 1, 5_200), c.CacheLoss("header", 2, 7_000)),
            c.CacheBreak(40, "compaction", 1, 9, 5_200), "Made of the first", False, TIME,
            c.GoalData("g", 2, "Grüße", "blocked", 9, "code", "why", 3, TIME, TIME + 1),
            Raw(b'[{"content":"x","status":"pending"}]'), c.PlanData(True, True),
            c.PermissionsData("workspace-write", "read-only", None),
            c.SubagentTimingData(600, TIME, TIME + 9, None),
            c.SubagentData("one-shot", None, 7, True), c.PairingData(1, 2, 3, 18), 4, 2, 33,
            (c.InstructionData("set", "s\u0000", "AGENTS.md", None),),
        ),
        c.SessionOverview(
            ID, 0, -1, None, None, None, None, None, None, None, (), None, None, "idle", None, 0,
            None, {}, 0, 0, c.UsageData(), c.UsageData(), None, None, 0, 0, {}, None,
        ),
    ],
    "deadletter": [
        DeadLetter(
            "not-json", "line 1 column 3", "sessions.events", 4, 123_456_789, TIME, ID, 17,
            ID.encode(), b'{"seq":17,\xff', (Header("epoch", b"2"), Header("trace", None)),
        ),
        DeadLetter("too-large", "bytes 0-9", "sessions.events", -1, -1, -1, None, None, None, None),
    ],
}  # fmt: skip
