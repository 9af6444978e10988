"""Turns, steps, tool calls, nested calls, attempts, requests and retries (session-log.md §2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw

from operators.events import (
    NULL,
    AssistantAttempt,
    Dispatch,
    RequestContext,
    RequestHeader,
    Retry,
    RetryStarted,
    Shape,
    StepEnd,
    StepStart,
    ToolCall,
    TurnEnd,
    TurnStart,
)

from .rows import Reading, Row
from .streams import EMPTY, stream_of, timed
from .typed import MISSING, Safe, Wire, given, typed

_STREAM: Final = Shape.EMBEDDED_STREAM.value


class Place(Wire):
    turn: Safe | None = None
    step: Safe | None = None


_NOWHERE: Final = Place()


class TurnStartRow(Row, tag="turn/start"):
    data: Place | None = None

    def read(self) -> Reading:
        return "turn/start", TurnStart((self.data or _NOWHERE).turn), 0


class StepStartRow(Row, tag="step/start"):
    data: Place | None = None

    def read(self) -> Reading:
        data = self.data or _NOWHERE
        return "step/start", StepStart(data.turn, data.step), 0


class StepEndRow(Row, tag="step/end"):
    data: Place | None = None

    def read(self) -> Reading:
        data = self.data or _NOWHERE
        return "step/end", StepEnd(data.turn, data.step), 0


# --- turn/end -------------------------------------------------------------------------------------


class FailureWire(Wire):
    message: str | None = None
    code: str | None = None


class ReasonWire(Wire):
    """``error`` is the failure of released logs; ``failure``, or message and code beside the step,
    those of older ones."""

    kind: str | None = None
    error: FailureWire | None = None
    failure: FailureWire | None = None
    message: str | None = None
    code: str | None = None


class TurnEndData(Wire):
    turn: Safe | None = None
    reason: Raw = MISSING


_REASON: Final[Callable[[Raw], ReasonWire | None]] = typed(ReasonWire)


class TurnEndRow(Row, tag="turn/end"):
    data: TurnEndData | None = None

    def read(self) -> Reading:
        data = self.data or TurnEndData()
        detail = given(data.reason)
        reason = None if detail is None else _REASON(detail)
        if reason is None:
            return "turn/end", TurnEnd(data.turn, None, detail), 0
        if reason.kind != "error":
            return "turn/end", TurnEnd(data.turn, reason.kind, detail), 0
        failure = reason.error or reason.failure or FailureWire(reason.message, reason.code)
        body = TurnEnd(data.turn, "error", detail, failure.message, failure.code)
        return "turn/end", body, 0


# --- attempts, calls, nested calls ----------------------------------------------------------------


class AttemptData(Wire):
    turn: Safe | None = None
    step: Safe | None = None
    stream: Raw = MISSING


class AttemptRow(Row, tag="assistant/attempt"):
    data: AttemptData | None = None

    def read(self) -> Reading:
        data = self.data or AttemptData()
        stream = stream_of(data.stream)
        if stream is None or stream is EMPTY:
            return "assistant/attempt", AssistantAttempt(data.turn, data.step, (), EMPTY), 0
        body = AssistantAttempt(data.turn, data.step, tuple(timed(data.stream)), stream)
        return "assistant/attempt", body, _STREAM


class CallData(Wire):
    turn: Safe | None = None
    step: Safe | None = None
    callId: str | None = None  # noqa: N815
    name: str | None = None
    arguments: str | None = None


class ToolCallRow(Row, tag="tool/call"):
    data: CallData | None = None

    def read(self) -> Reading:
        d = self.data or CallData()
        return "tool/call", ToolCall(d.turn, d.step, d.callId, d.name, d.arguments), 0


class DispatchData(Wire):
    rootCallId: str | None = None  # noqa: N815
    parentCallId: str | None = None  # noqa: N815
    subCallId: str | None = None  # noqa: N815
    name: str | None = None
    arguments: Raw = MISSING
    isError: bool | None = None  # noqa: N815
    content: Raw = MISSING
    error: Raw = MISSING


class DispatchRow(Row):
    """The start of a nested call, under either name."""

    data: DispatchData | None = None

    def read(self) -> Reading:
        return "tool/code-dispatch-start", _dispatch(self.data or DispatchData(), False), 0


class CodeStartRow(DispatchRow, tag="tool/code-dispatch-start"):
    pass


class PtcStartRow(DispatchRow, tag="tool/ptc-dispatch-start"):
    pass


class SettleRow(DispatchRow):
    """Its settling, under either name."""

    def read(self) -> Reading:
        return "tool/code-dispatch", _dispatch(self.data or DispatchData(), True), 0


class CodeSettleRow(SettleRow, tag="tool/code-dispatch"):
    pass


class PtcSettleRow(SettleRow, tag="tool/ptc-dispatch"):
    pass


def _dispatch(d: DispatchData, settled: bool) -> Dispatch:
    ids = (d.rootCallId, d.parentCallId, d.subCallId)
    if not settled:
        return Dispatch(*ids, d.name, given(d.arguments), False)
    error, content = given(d.error), given(d.content)
    is_error = d.isError is True
    return Dispatch(*ids, d.name, given(d.arguments), True, is_error, content, error)


# --- requests, retries ----------------------------------------------------------------------------


class ConfigWire(Wire):
    provider: str | None = None
    model: str | None = None


class HeaderWire(Wire):
    config: ConfigWire | None = None


class RequestHeaderData(Wire):
    header: Raw = MISSING


_HEADER: Final[Callable[[Raw], HeaderWire | None]] = typed(HeaderWire)


class RequestHeaderRow(Row, tag="request/header"):
    data: RequestHeaderData | None = None

    def read(self) -> Reading:
        raw = None if self.data is None else given(self.data.header)
        header = None if raw is None else _HEADER(raw)
        config = (header.config if header is not None else None) or ConfigWire()
        return "request/header", RequestHeader(config.provider, config.model, raw), 0


class RequestContextData(Wire):
    provider: str | None = None
    model: str | None = None
    contextWindow: Safe | None = None  # noqa: N815


class RequestContextRow(Row, tag="request/context"):
    data: RequestContextData | None = None

    def read(self) -> Reading:
        d = self.data or RequestContextData()
        return "request/context", RequestContext(d.provider, d.model, d.contextWindow), 0


class RetryData(Wire):
    retryId: str | None = None  # noqa: N815
    turn: Safe | None = None
    step: Safe | None = None
    provider: str | None = None
    mode: str | None = None
    retry: Safe | None = None
    maxRetries: Safe | None = None  # noqa: N815
    delayMs: Safe | None = None  # noqa: N815
    failure: Raw = MISSING


class RetryRow(Row, tag="llm/retry"):
    data: RetryData | None = None

    def read(self) -> Reading:
        d = self.data or RetryData()
        body = Retry(
            d.turn,
            d.step,
            d.retryId or None,
            d.provider,
            d.mode,
            d.retry,
            d.maxRetries,
            d.delayMs,
            given(d.failure) or NULL,
        )
        return "llm/retry", body, 0


class RetryStartedRow(Row, tag="llm/retry-started"):
    data: RetryData | None = None

    def read(self) -> Reading:
        d = self.data or RetryData()
        return "llm/retry-started", RetryStarted(d.turn, d.step, d.retryId or None, d.retry), 0
