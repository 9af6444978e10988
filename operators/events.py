"""The alphabet that goes in: one canonical event per position of a session log.

Every shape in the wild (``schemas/shapes.py`` knows them) becomes one of the bodies below; the fold
decides by ``type(event.body)`` and never looks at a format version (projection.md §2).

Opaque JSON is :class:`msgspec.Raw`: the input's own bytes, a slice of the line, never parsed and
written again. What a fold needs from inside stands beside it, decoded once.

A value that cannot be what its field says is ``None`` here (a turn that is no integer, a missing
id); an event that cannot be read at all is a :class:`Fault`. Nothing in this file parses.

One file, however long, because the alphabet is closed: whoever adds to it sees all of it.
``gc=False`` throughout: frozen values hold no cycles, so the collector need not visit them.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TypeAlias

from msgspec import Raw, Struct

NULL = Raw(b"null")
EMPTY_LIST = Raw(b"[]")
MAX_SEQ = 2**53 - 1


class Shape(IntFlag):
    """Format shapes an event can show; their names are those of ``outputs.md`` (``shapes``)."""

    CHUNK_EVENTS = 1
    PACKED_ROWS = 2
    EMBEDDED_STREAM = 4
    RESULT_FLAT = 8
    RESULT_WRAPPED = 16
    RESULT_DIRECT = 32
    REPLACE_START = 64
    REPLACE_START_SEQ = 128
    CHECKPOINT_PLUGIN = 256
    CHECKPOINT_PRODUCER = 512
    LEGACY_NAMES = 1024
    SOURCES_RANGES = 2048


# --- the surface marker and the source list -------------------------------------------------------


class Append(Struct, frozen=True, gc=False):
    """``surfaceOp: "append"``."""


class Replace(Struct, frozen=True, gc=False):
    """``surfaceOp: {op: "replace", …}`` in either spelling; endpoints as logged, seqs by value."""

    start: int
    end: int


class BadMarker(Struct, frozen=True, gc=False):
    """A ``surfaceOp`` that is present and wrong: ``surfaceop-invalid`` (neither a string nor an
    object of the known form) or ``surfaceop-invalid-replace`` (an object with ``op: "replace"``
    whose keys or endpoints are wrong)."""

    reason: str
    message: str


Marker: TypeAlias = Append | Replace | BadMarker | None
APPEND = Append()


class Sources(Struct, frozen=True, gc=False):
    """``sourceEventSeqs``, ranges kept as ranges: ``[first, last]`` pairs in the order logged, a
    plain integer ``n`` as ``(n, n)``. ``count`` is the sum of their lengths, ``lowest`` and
    ``highest`` the extreme members (0 and -1 when the list is empty)."""

    ranges: tuple[tuple[int, int], ...]
    count: int
    lowest: int
    highest: int


class BadSources(Struct, frozen=True, gc=False):
    """Wrong by itself: ``sources-not-array``, ``sources-element`` or ``sources-duplicate``."""

    reason: str
    message: str


SourceList: TypeAlias = Sources | BadSources | None


# --- common values --------------------------------------------------------------------------------


class Usage(Struct, frozen=True, gc=False):
    """Token counts of one sample; a bucket that is absent or no number counts 0."""

    uncached_input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    has_output: bool = False  #: ``outputTokens`` was a finite number ≥ 0 (readers.md §2)


class Checkpoint(Struct, frozen=True, gc=False):
    """The compaction source on a user message; a checkpoint only if the message also replaces."""

    compaction_id: str | None = None
    command_id: str | None = None


class Source(Struct, frozen=True, gc=False):
    """Who a user or developer message comes from (projection.md §5.5)."""

    raw: Raw = NULL
    kind: str = ""  #: "" when the log has none
    producer: str | None = None  #: label; None for kind ``user``
    form: str | None = None
    checkpoint: Checkpoint | None = None


# --- stream chunks --------------------------------------------------------------------------------


class BlockStart(Struct, frozen=True, gc=False):
    index: int
    block_type: str


class TextDelta(Struct, frozen=True, gc=False):
    """A text or reasoning delta; ``kind`` is "text" or "reasoning"."""

    index: int
    kind: str
    text: str


class ToolDelta(Struct, frozen=True, gc=False):
    """``name`` is None when the key is absent; ``""`` is a name (it makes a first token)."""

    index: int
    id: str | None
    name: str | None
    arguments: str


class BlockEnd(Struct, frozen=True, gc=False):
    """The final block as logged; ``type`` its tag, ``blank`` whether its text is white space only,
    ``call_id`` and ``name`` those of a tool call."""

    index: int
    block: Raw
    type: str
    blank: bool
    call_id: str | None = None
    name: str | None = None


class UsageChunk(Struct, frozen=True, gc=False):
    raw: Raw
    usage: Usage


class OtherChunk(Struct, frozen=True, gc=False):
    """``finish`` and every chunk type not known here: no effect on rows. ``cut_short``: it says
    that the answer reached its most tokens."""

    type: str
    cut_short: bool = False


Chunk: TypeAlias = TextDelta | ToolDelta | BlockStart | BlockEnd | UsageChunk | OtherChunk


class Run(Struct, frozen=True, gc=False):
    """Consecutive deltas of one block, one packed row: ``texts[k]`` at ``times[k]``.

    ``kind`` is "text", "reasoning" or "tool-call" (then ``texts`` are argument pieces, and ``id``
    and ``name`` are those of every member)."""

    index: int
    kind: str
    texts: tuple[str, ...]
    times: tuple[int | None, ...]
    id: str | None = None
    name: str | None = None


class Timed(Struct, frozen=True, gc=False):
    """One record of an embedded stream: a chunk or a run, with the stream's own time."""

    time: int | None
    chunk: Chunk | Run


class Stream(Struct, frozen=True, gc=False):
    """What the fold takes from an embedded stream: first token, last usage sample. ``raw``: the
    stream as logged, for whoever has to read all of it."""

    first_token_time: int | None = None
    usage_raw: Raw | None = None
    usage: Usage | None = None
    raw: Raw = EMPTY_LIST


# --- bodies ---------------------------------------------------------------------------------------


class UserMessage(Struct, frozen=True, gc=False):
    """``message`` is what the model is sent (the data, or the wrapped form of a flat one)."""

    message: Raw
    id: str | None
    content: Raw
    source: Source
    steering: bool = False  #: logged as ``steering/message``: always a steering row


class AssistantMessage(Struct, frozen=True, gc=False):
    turn: int | None
    step: int | None
    message: Raw
    id: str | None
    content: Raw
    empty: bool  #: content is ``[]``: projects to no message
    calls: tuple[str, ...]  #: ids of its tool-call blocks, in order
    has_text: bool  #: some text block is not blank
    visible: bool  #: non-blank text or reasoning, or any block other than a tool call
    usage_raw: Raw | None  #: the message's own
    usage: Usage | None
    provider: str | None
    model: str | None
    interrupted: bool
    stream: Stream | None  #: None: no embedded stream


class AssistantAttempt(Struct, frozen=True, gc=False):
    """An attempt that settled without a message: stands for the chunks of its stream."""

    turn: int | None
    step: int | None
    records: tuple[Timed, ...]
    stream: Stream


class AssistantChunk(Struct, frozen=True, gc=False):
    """One chunk event, or one packed row (``chunk`` is a :class:`Run`)."""

    turn: int | None
    step: int | None
    chunk: Chunk | Run


class _Instruction(Struct, frozen=True, gc=False):
    turn: int | None
    step: int | None
    message: Raw
    id: str | None
    content: Raw
    source: Source
    empty: bool  #: content is ``[]``: projects to no message


class SystemMessage(_Instruction, frozen=True, gc=False):
    """A system prompt; the first one is the head of the surface."""


class DeveloperMessage(_Instruction, frozen=True, gc=False):
    """A change of the tool list (v4)."""


class ToolCall(Struct, frozen=True, gc=False):
    turn: int | None
    step: int | None
    call_id: str | None
    name: str | None
    arguments: str | None


class ToolResult(Struct, frozen=True, gc=False):
    """``identity``: 64-bit digest of everything in the data but the content, by JSON value (§4);
    two results with equal identity may replace one another."""

    turn: int | None
    step: int | None
    call_id: str | None
    message_id: str | None
    message: Raw
    content: Raw
    is_error: bool
    error: Raw | None
    meta: Raw | None
    identity: int


class Dispatch(Struct, frozen=True, gc=False):
    """A nested call: its start (``settled`` false) or its settling."""

    root_call_id: str | None
    parent_call_id: str | None
    sub_call_id: str | None
    name: str | None
    arguments: Raw | None
    settled: bool
    is_error: bool = False
    content: Raw | None = None
    error: Raw | None = None


class TurnStart(Struct, frozen=True, gc=False):
    turn: int | None


class TurnEnd(Struct, frozen=True, gc=False):
    """``reason`` is the kind, None without one; ``detail`` the reason object as logged. For kind
    ``error``: message and code of the failure in any of its shapes."""

    turn: int | None
    reason: str | None
    detail: Raw | None
    error_message: str | None = None
    error_code: str | None = None


class StepStart(Struct, frozen=True, gc=False):
    turn: int | None
    step: int | None


class StepEnd(Struct, frozen=True, gc=False):
    turn: int | None
    step: int | None


class RequestHeader(Struct, frozen=True, gc=False):
    """``raw``: the header as logged; None when there is none."""

    provider: str | None
    model: str | None
    raw: Raw | None = None


class RequestContext(Struct, frozen=True, gc=False):
    provider: str | None
    model: str | None
    context_window: int | None


class Retry(Struct, frozen=True, gc=False):
    turn: int | None
    step: int | None
    retry_id: str | None  #: None when missing or empty
    provider: str | None
    mode: str | None
    retry: int | None
    max_retries: int | None
    delay_ms: int | None
    failure: Raw


class RetryStarted(Struct, frozen=True, gc=False):
    turn: int | None
    step: int | None
    retry_id: str | None
    retry: int | None


class InboxSplice(Struct, frozen=True, gc=False):
    """``next_step`` tells the list; None when the target is neither. ``start`` and ``removed`` as
    logged (JavaScript's clamping is the fold's), ``inserted`` message ids."""

    next_step: bool | None
    start: int
    removed: int
    inserted: tuple[str | None, ...]
    canceled: bool


class CommandRun(Struct, frozen=True, gc=False):
    command_id: str | None
    name: str | None
    args: str | None


class CommandDone(Struct, frozen=True, gc=False):
    """``source_event_seq`` only with success and when it is a seq."""

    command_id: str | None
    success: bool
    text: str | None
    source_event_seq: int | None


class CompactionStart(Struct, frozen=True, gc=False):
    compaction_id: str | None
    command_id: str | None
    turn: int | None


class Claim(Struct, frozen=True, array_like=True, gc=False):
    """What a metering event says that the nodes from ``start`` to ``end`` cost together: seqs and a
    count from 0."""

    start: int
    end: int
    tokens: int


class CompactionSummary(Struct, frozen=True, gc=False):
    """``text``: the text blocks joined without a separator, None if blank; ``item_count``: length
    of ``shadowedSeqs`` if all are seqs; ``token_count`` if a non-negative integer; ``claim``: of
    the replacement that follows; ``provider`` and ``model``: whom the summary was asked of."""

    compaction_id: str | None
    command_id: str | None
    text: str | None
    item_count: int | None
    token_count: int | None
    usage: Usage | None
    claim: Claim | None = None
    provider: str | None = None
    model: str | None = None


class Prune(Struct, frozen=True, gc=False):
    """``compaction/prune``: metering of the replacement right after it."""

    claim: Claim | None = None


class CompactionEnd(Struct, frozen=True, gc=False):
    compaction_id: str | None
    command_id: str | None
    turn: int | None
    error: str | None  #: failure text; None when it ended well


class EndSeed(Struct, frozen=True, gc=False):
    inherited: bool


class Title(Struct, frozen=True, gc=False):
    """``data`` as logged."""

    title: str | None
    data: Raw = NULL


class ImageTarget(Struct, frozen=True, gc=False):
    """``seq`` is None when the target is not of the known form."""

    seq: int | None
    images: tuple[int, ...]


class ImageOffload(Struct, frozen=True, gc=False):
    targets: tuple[ImageTarget, ...]


class LogOnly(Struct, frozen=True, gc=False):
    """A known type that changes neither rows nor surface."""


class Fact(Struct, frozen=True, gc=False):
    """A known type that changes neither rows nor surface, and that some reader looks at: one of
    ``FACTS``. ``data`` as logged, ``null`` when the event has none."""

    data: Raw = NULL


#: The types of a :class:`Fact`.
FACTS = frozenset(
    {
        "approval/policy",
        "goal/change",
        "permission/preset",
        "plan/mode",
        "sandbox/mode",
        "subagent/descriptor",
        "todo/write",
    }
)


class Unknown(Struct, frozen=True, gc=False):
    ignorable: bool


Body: TypeAlias = (
    UserMessage
    | AssistantMessage
    | AssistantAttempt
    | AssistantChunk
    | SystemMessage
    | DeveloperMessage
    | ToolCall
    | ToolResult
    | Dispatch
    | TurnStart
    | TurnEnd
    | StepStart
    | StepEnd
    | RequestHeader
    | RequestContext
    | Retry
    | RetryStarted
    | InboxSplice
    | CommandRun
    | CommandDone
    | CompactionStart
    | CompactionSummary
    | Prune
    | CompactionEnd
    | EndSeed
    | Title
    | ImageOffload
    | LogOnly
    | Fact
    | Unknown
)

SURFACE_BODIES = (UserMessage, AssistantMessage, ToolResult, SystemMessage, DeveloperMessage)


# --- the three things a line can be ---------------------------------------------------------------


class Event(Struct, frozen=True, gc=False):
    """One event; a packed row is one event of ``count`` members, at ``seq`` … ``seq + count - 1``.

    ``type`` is the type as read: the canonical name (``compact/start`` → ``compaction/start``,
    ``tool/ptc-dispatch`` → ``tool/code-dispatch``, ``steering/message`` → ``user/message``), an
    unknown one as logged. ``digest`` is xxh3-64 of the line's bytes. ``quality`` lists quality
    facts met while reading (``replaced_utf8``, ``malformed``).
    """

    seq: int
    time: int | None
    type: str
    body: Body
    marker: Marker = None
    sources: SourceList = None
    digest: int = 0
    count: int = 1
    shapes: int = 0
    quality: tuple[str, ...] = ()


class Header(Struct, frozen=True, gc=False):
    """The log header. ``session`` is its id, ``raw`` the whole line. Unknown keys are allowed."""

    session: str | None
    raw: Raw
    version: int | None = None
    created_at: int | None = None
    cwd: str | None = None
    parent: str | None = None
    origin: str | None = None
    depth: int | None = None
    seed_length: int | None = None
    digest: int = 0
    quality: tuple[str, ...] = ()


class Fault(Struct, frozen=True, gc=False):
    """A line that cannot be read as an event. ``seq`` is known or not; a known one is taken.

    Raised by nobody: readers return it, the fold turns it into a dead letter."""

    reason: str
    message: str
    seq: int | None = None
    digest: int = 0
    quality: tuple[str, ...] = ()


Line: TypeAlias = Event | Header | Fault
