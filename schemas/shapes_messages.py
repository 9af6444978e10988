"""Every message type but ``tool/result``, in every shape (projection.md §2, session-log.md §2.4).

Flat legacy messages are wrapped around their own content; what is wrapped already is passed on as
it stands in the line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Raw, UnsetType
from msgspec.json import encode

from operators.events import (
    NULL,
    AssistantMessage,
    DeveloperMessage,
    LogOnly,
    Shape,
    Source,
    SystemMessage,
    UserMessage,
)

from .blocks import block_facts, usage_of
from .markers import ReplaceOp
from .rows import Reading, Row
from .sources import checkpoint_shape, source_of
from .streams import EMPTY, stream_of
from .typed import MISSING, Safe, Wire, given, typed

_LEGACY: Final = Shape.LEGACY_NAMES.value
_STREAM: Final = Shape.EMBEDDED_STREAM.value


def legacy_id(row: Row) -> str:
    """The id made for a flat message."""
    return f"legacy:{row.seq}"


def is_array(raw: Raw) -> bool:
    return len(raw) > 0 and memoryview(raw)[0] == 0x5B


# --- user/message, steering/message, context/message ----------------------------------------------


class UserData(Wire):
    id: str | UnsetType | None = UNSET
    role: Raw = MISSING
    content: Raw = MISSING
    source: Raw = MISSING


_USER: Final[Callable[[Raw], UserData | None]] = typed(UserData)
_KIND_USER: Final = Raw(b'{"kind":"user"}')
_KIND_CONTEXT: Final = Raw(b'{"kind":"context"}')


class UserRow(Row, tag="user/message"):
    data: Raw = MISSING

    def read(self) -> Reading:
        body = _user(self, self.data, None, False)
        if body is None:
            message = self.data if len(self.data) else NULL
            body = UserMessage(message, None, NULL, source_of(None))
        return "user/message", body, _checkpoint_bit(self, body)


class SteeringRow(Row, tag="steering/message"):
    data: Raw = MISSING

    def read(self) -> Reading:
        return _legacy_user(self, self.data, "steering/message")


class ContextRow(Row, tag="context/message"):
    data: Raw = MISSING

    def read(self) -> Reading:
        return _legacy_user(self, self.data, "context/message")


def _legacy_user(row: Row, data: Raw, type_: str) -> Reading:
    """A user message if it carries a marker and a content array, else log-only."""
    steering = type_ == "steering/message"
    default = _KIND_USER if steering else _KIND_CONTEXT
    body = None if row.surfaceOp is UNSET else _user(row, data, default, steering)
    if body is None or not is_array(body.content):
        return type_, LogOnly(), 0
    return "user/message", body, _LEGACY | _checkpoint_bit(row, body)


def _checkpoint_bit(row: Row, body: UserMessage) -> int:
    """A compaction source makes a checkpoint of a replacement alone."""
    return checkpoint_shape(body.source) if isinstance(row.surfaceOp, ReplaceOp) else 0


def _user(row: Row, data: Raw, default: Raw | None, steering: bool) -> UserMessage | None:
    wire = _USER(data)
    if wire is None:
        return None
    raw = given(wire.source) or default
    source = source_of(raw)
    content = wire.content
    if wire.id is UNSET and not len(wire.role) and is_array(content):
        made = legacy_id(row)
        tail = b"" if raw is None else b',"source":' + bytes(raw)
        message = wrapped(made, b"user", bytes(content) + tail)
        return UserMessage(message, made, content, source, steering)
    id_ = None if wire.id is UNSET else wire.id
    return UserMessage(data, id_, content if len(content) else NULL, source, steering)


def wrapped(id_: str, role: bytes, rest: bytes) -> Raw:
    """A message object around content bytes (and what follows them)."""
    return Raw(b'{"id":"%b","role":"%b","content":%b}' % (id_.encode(), role, rest))


# --- assistant/message ----------------------------------------------------------------------------


class RouteWire(Wire):
    provider: str | None = None
    model: str | None = None


class AssistantWire(Wire):
    id: str | None = None
    content: Raw = NULL
    source: RouteWire | None = None


class AssistantData(Wire):
    turn: Safe | None = None
    step: Safe | None = None
    message: Raw = MISSING
    usage: Raw = MISSING
    interrupted: bool | None = None
    stream: Raw = MISSING
    content: Raw = MISSING
    provenance: Raw = MISSING


_ASSISTANT: Final[Callable[[Raw], AssistantWire | None]] = typed(AssistantWire)
_ROUTE: Final[Callable[[Raw], RouteWire | None]] = typed(RouteWire)
_NO_ROUTE: Final = RouteWire()


class AssistantRow(Row, tag="assistant/message"):
    data: AssistantData | None = None

    def read(self) -> Reading:
        data = self.data or AssistantData()
        message = given(data.message)
        if message is None and is_array(data.content):
            message, wire = _wrap_assistant(data, legacy_id(self))
        else:
            wire = (message is not None and _ASSISTANT(message)) or AssistantWire()
        route = wire.source or _NO_ROUTE
        empty, calls, has_text, visible = block_facts(wire.content)
        usage_raw = given(data.usage)
        usage = usage_of(usage_raw)
        stream = None if data.stream is MISSING else stream_of(data.stream, usage_raw, usage)
        bits = 0 if stream is None or stream is EMPTY else _STREAM
        body = AssistantMessage(
            data.turn,
            data.step,
            NULL if message is None else message,
            wire.id,
            wire.content,
            empty,
            calls,
            has_text,
            visible,
            None if usage is None else usage_raw,
            usage,
            route.provider,
            route.model,
            data.interrupted is True,
            stream,
        )
        return "assistant/message", body, bits


def _wrap_assistant(data: AssistantData, made: str) -> tuple[Raw, AssistantWire]:
    route = _ROUTE(data.provenance) or _NO_ROUTE
    source: dict[str, str] = {"kind": "model"}
    if route.provider is not None:
        source["provider"] = route.provider
    if route.model is not None:
        source["model"] = route.model
    tail = b',"source":' + encode(source)
    message = wrapped(made, b"assistant", bytes(data.content) + tail)
    return message, AssistantWire(made, data.content, route)


# --- system/message, developer/message ------------------------------------------------------------


class MessageWire(Wire):
    id: str | None = None
    content: Raw = NULL
    source: Raw = MISSING


class MessageData(Wire):
    turn: Safe | None = None
    step: Safe | None = None
    message: Raw = MISSING


_MESSAGE: Final[Callable[[Raw], MessageWire | None]] = typed(MessageWire)


class SystemRow(Row, tag="system/message"):
    data: MessageData | None = None

    def read(self) -> Reading:
        return "system/message", SystemMessage(*_plain(self.data)), 0


class DeveloperRow(Row, tag="developer/message"):
    data: MessageData | None = None

    def read(self) -> Reading:
        return "developer/message", DeveloperMessage(*_plain(self.data)), 0


def _plain(
    data: MessageData | None,
) -> tuple[int | None, int | None, Raw, str | None, Raw, Source, bool]:
    """The fields that system and developer messages share, in their order."""
    data = data or MessageData()
    message = given(data.message)
    wire = (message is not None and _MESSAGE(message)) or MessageWire()
    return (
        data.turn,
        data.step,
        NULL if message is None else message,
        wire.id,
        wire.content,
        source_of(given(wire.source)),
        block_facts(wire.content)[0],
    )
