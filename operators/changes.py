"""The alphabet that comes out; field names, order and meaning are those of ``outputs.md`` §1.

All records are frozen; ``Raw`` fields are opaque JSON. ``session`` and ``epoch`` are set by the
fold's caller through :class:`operators.session.Session`, so that a change is complete by itself.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Raw, Struct

from .events import EMPTY_LIST, NULL

# --- the surface ----------------------------------------------------------------------------------


class Target(Struct, frozen=True, gc=False):
    seq: int
    images: tuple[int, ...]


class SurfaceChange(Struct, frozen=True, gc=False):
    """One step of what the model is sent: ``op`` append, replace, amend or reset."""

    session: str | None
    epoch: int
    seq: int
    op: str
    type: str | None = None
    time: int | None = None
    start: int | None = None
    end: int | None = None
    shadowed: tuple[int, ...] = ()
    position: int = -1
    generation: int = 0
    message: Raw | None = None
    targets: tuple[Target, ...] = ()
    partial: bool = False


# --- what a row of the transcript holds, one record per kind --------------------------------------


class MessageData(Struct, frozen=True, gc=False):
    """Kinds user, steering, context, system."""

    message_id: str | None
    content: Raw
    source: Raw
    producer: str | None = None
    form: str | None = None


class AssistantData(Struct, frozen=True, gc=False):
    status: str
    message_id: str | None = None
    blocks: Raw = EMPTY_LIST
    usage: Raw | None = None
    provider: str | None = None
    model: str | None = None
    step_start_time: int | None = None
    first_token_time: int | None = None
    completed_time: int | None = None


class SubCall(Struct, frozen=True, gc=False):
    call_id: str
    name: str | None
    arguments: Raw | None
    status: str
    content: Raw | None
    error: Raw | None
    start_seq: int | None
    end_seq: int | None
    sub_calls: tuple[SubCall, ...] = ()


class ToolData(Struct, frozen=True, gc=False):
    call_id: str
    name: str | None
    arguments: str | None
    status: str
    content: Raw = EMPTY_LIST
    is_error: bool = False
    error: Raw | None = None
    meta: Raw | None = None
    call_seq: int | None = None
    call_time: int | None = None
    result_seq: int | None = None
    result_rank: int = 0
    result_time: int | None = None
    announced_by: int | None = None
    sub_calls: tuple[SubCall, ...] = ()


class CompactionData(Struct, frozen=True, gc=False):
    compaction_id: str | None
    trigger: str | None
    status: str
    checkpoint_seq: int | None = None
    summary: str | None = None
    summary_seq: int | None = None
    item_count: int | None = None
    token_count: int | None = None
    start_seq: int | None = None
    start_time: int | None = None
    end_time: int | None = None
    duration_ms: int | None = None
    error: str | None = None


class CommandData(Struct, frozen=True, gc=False):
    command_id: str
    name: str | None
    args: str | None
    status: str
    text: str | None = None
    run_seq: int | None = None
    done_seq: int | None = None
    done_time: int | None = None
    source_event_seq: int | None = None
    compaction: CompactionData | None = None


class Attempt(Struct, frozen=True, gc=False):
    seq: int
    time: int | None
    retry: int | None
    max_retries: int | None
    delay_ms: int | None
    failure: Raw = NULL


class RetryData(Struct, frozen=True, gc=False):
    retry_id: str
    provider: str | None
    mode: str | None
    status: str
    attempts: tuple[Attempt, ...]


class TurnErrorData(Struct, frozen=True, gc=False):
    message: str | None
    code: str | None
    masked: bool


class MaxTokensData(Struct, frozen=True, gc=False):
    closing_seq: int | None


class UsageData(Struct, frozen=True, gc=False):
    uncached_input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


class TurnData(Struct, frozen=True, gc=False):
    reason: str | None
    reason_detail: Raw | None
    steps: int
    tool_calls: int
    tool_errors: int
    usage: UsageData | None
    start_time: int | None
    end_time: int | None
    ttft_ms: int | None
    decode_ms: int | None
    decode_tokens: int | None
    closing_seq: int | None


class GapData(Struct, frozen=True, gc=False):
    first: int
    last: int


class UnknownData(Struct, frozen=True, gc=False):
    type: str
    ignorable: bool


RowData: TypeAlias = (
    MessageData
    | AssistantData
    | ToolData
    | CommandData
    | CompactionData
    | RetryData
    | TurnErrorData
    | MaxTokensData
    | TurnData
    | GapData
    | UnknownData
)


class Truncated(Struct, frozen=True, gc=False):
    """A field of ``data`` that was cut for size: its name and its whole length in bytes."""

    field: str
    bytes: int


class TranscriptRow(Struct, frozen=True, gc=False):
    """A keyed upsert; ``seq`` = ``rev``. ``kind`` is one of the table in projection.md §5."""

    session: str | None
    epoch: int
    seq: int
    key: str
    kind: str
    anchor_seq: int
    anchor_rank: int
    rev: int
    visibility: str
    turn: int | None
    step: int | None
    time: int | None
    deleted: bool
    truncated: tuple[Truncated, ...]
    data: RowData | None


class PartialText(Struct, frozen=True, gc=False):
    """Text that only lengthens an open block; ``block`` is its place in the row's ``blocks``,
    ``offset`` in code points, ``seq`` = ``last_seq``."""

    session: str | None
    epoch: int
    seq: int
    key: str
    turn: int | None
    step: int | None
    block: int
    block_type: str
    offset: int
    text: str
    first_seq: int
    last_seq: int
    time: int | None


class SessionOverview(Struct, frozen=True, gc=False):
    session: str | None
    epoch: int
    seq: int
    as_of_seq: int | None
    title: str | None
    cwd: str | None
    parent: str | None
    origin: str | None
    depth: int | None
    created_at: int | None
    shapes: tuple[str, ...]
    provider: str | None
    model: str | None
    state: str
    open_turn: int | None
    next_seq: int
    last_time: int | None
    counts: dict[str, int]
    surface_nodes: int
    generation: int
    usage: UsageData
    compaction_usage: UsageData
    context_window: int | None
    prompt_tokens: int | None
    model_ms: int
    tool_ms: int
    quality: dict[str, int]
    inherited_until: int | None


class Refused(Struct, frozen=True, gc=False):
    """A line the fold did not take: reason code of ``outputs.md``, in words, and its seq."""

    reason: str
    message: str
    seq: int | None


Change: TypeAlias = SurfaceChange | TranscriptRow | PartialText | SessionOverview | Refused
