"""One tool row: what is known of a call and its result, and what the row shows (§5.2)."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from .changes import ToolData
from .events import EMPTY_LIST, ToolResult
from .nested import INTERRUPTED_ERROR, Nested

INTERRUPTED_RANK = -80
Boundary = tuple[int, int | None]  #: seq and time of the event that closed a step or turn


class Tool(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One tool row; ``key`` is the seq in its key. ``logged``: its result is in the log, not a
    stand-in for an interruption."""

    key: int
    turn: int | None
    step: int | None
    call_id: str
    name: str | None = None
    arguments: str | None = None
    status: str = "running"
    call_seq: int | None = None
    call_time: int | None = None
    announced_by: int | None = None
    logged: bool = False
    content: Raw = EMPTY_LIST
    is_error: bool = False
    error: Raw | None = None
    meta: Raw | None = None
    result_seq: int | None = None
    result_rank: int = 0
    result_time: int | None = None

    @property
    def anchor(self) -> int:
        """The call's seq, else the result's."""
        if self.call_seq is not None:
            return self.call_seq
        return self.key if self.result_seq is None else self.result_seq


def interrupted_tool(tool: Tool, boundary: Boundary) -> Tool:
    seq, time = boundary
    return msgspec.structs.replace(
        tool,
        status="interrupted",
        content=EMPTY_LIST,
        is_error=True,
        error=INTERRUPTED_ERROR,
        result_seq=seq,
        result_rank=INTERRUPTED_RANK,
        result_time=time,
    )


def resulted_tool(tool: Tool, seq: int, time: int | None, body: ToolResult) -> Tool:
    return msgspec.structs.replace(
        tool,
        status="error" if body.is_error else "ok",
        logged=True,
        content=body.content,
        is_error=body.is_error,
        error=body.error,
        meta=body.meta,
        result_seq=seq,
        result_rank=0,
        result_time=time,
    )


def tool_data(tool: Tool, nested: Nested | None) -> ToolData:
    return ToolData(
        tool.call_id,
        tool.name,
        tool.arguments,
        tool.status,
        tool.content,
        tool.is_error,
        tool.error,
        tool.meta,
        tool.call_seq,
        tool.call_time,
        tool.result_seq,
        tool.result_rank,
        tool.result_time,
        tool.announced_by,
        nested.tree(tool.key, tool.call_id) if nested else (),
    )
