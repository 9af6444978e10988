"""The alphabet that comes out; field names, order and meaning are those of ``outputs.md`` §1.

All records are frozen; ``Raw`` fields are opaque JSON. ``session`` and ``epoch`` are set by the
fold's caller through :class:`operators.session.Session`, so that a change is complete by itself.

One file, however long, because the alphabet is closed, as that of ``events.py``.
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


# --- the overview, and what the readers say in it (readers.md); tokens are estimates (§4) ---------

NO_USAGE_DATA = UsageData()


class BilledData(Struct, frozen=True, gc=False):
    """What one route is billed for; times are those of its first and last sample."""

    provider: str | None
    model: str | None
    usage: UsageData
    compaction_usage: UsageData
    since: int | None
    through: int | None


class CacheLoss(Struct, frozen=True, gc=False):
    """``cause``: compaction, prune, regenerate, header, images or other."""

    cause: str
    breaks: int
    invalidated_tokens: int


class CacheBreak(Struct, frozen=True, gc=False):
    """A change of the prompt: so much stands unchanged before it, so much stood behind."""

    seq: int
    cause: str
    prefix_messages: int
    prefix_tokens: int
    invalidated_tokens: int


class GoalData(Struct, frozen=True, gc=False):
    id: str
    revision: int
    objective: str
    phase: str
    max_rounds: int
    blocked_code: str | None
    blocked_message: str | None
    rounds_started: int
    created_at: int
    updated_at: int


class PlanData(Struct, frozen=True, gc=False):
    active: bool
    pending: bool


class PermissionsData(Struct, frozen=True, gc=False):
    """The preset's name is what was meant, the other two are what is in force."""

    preset: str | None
    sandbox: str | None
    approval: str | None


class SubagentData(Struct, frozen=True, gc=False):
    """``own`` is False for the identity of the ancestor that a fork's prefix comes from."""

    mode: str
    label: str | None
    seq: int
    own: bool


class SubagentTimingData(Struct, frozen=True, gc=False):
    """``since`` and ``through``: of the turn that is open."""

    settled_ms: int
    since: int | None
    through: int | None
    last_turn_completed: bool | None


class PairingData(Struct, frozen=True, gc=False):
    """Calls on the surface without a result, halves that replacements tore off, and the first
    result that came to a surface on which no call waited."""

    waiting: int
    orphan_calls: int
    orphan_results: int
    corrupt: int | None


class InstructionData(Struct, frozen=True, gc=False):
    """An instruction in force; ``action`` remove is one, too."""

    action: str
    scope: str
    path: str
    digest: str | None


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
    turns: int = 0
    steps: int = 0
    ttft_ms: int = 0
    ttft_steps: int = 0
    decode_ms: int = 0
    decode_tokens: int = 0
    reference_usage: UsageData = NO_USAGE_DATA
    billed: tuple[BilledData, ...] = ()
    system_tokens: int = 0
    tools_tokens: int = 0
    message_tokens: int = 0
    surface_tokens: int = 0
    metered_difference: int = 0
    pressure_tokens: int | None = None
    projected_tokens: int | None = None
    cache_breaks: tuple[CacheLoss, ...] = ()
    last_cache_break: CacheBreak | None = None
    derived_title: str | None = None
    blank: bool = True
    last_prompt_at: int | None = None
    goal: GoalData | None = None
    todos: Raw | None = None
    plan: PlanData | None = None
    permissions: PermissionsData | None = None
    subagent_timing: SubagentTimingData | None = None
    subagent: SubagentData | None = None
    pairing: PairingData | None = None
    contexts_alive: int = 0
    contexts_shadowed: int = 0
    runtime_context: int | None = None
    instructions: tuple[InstructionData, ...] = ()


class Refused(Struct, frozen=True, gc=False):
    """A line the fold did not take: reason code of ``outputs.md``, in words, and its seq."""

    reason: str
    message: str
    seq: int | None


Change: TypeAlias = SurfaceChange | TranscriptRow | PartialText | SessionOverview | Refused
