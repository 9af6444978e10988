"""``tool/result`` in its three shapes (session-log.md §2.5) → one body.

flat ``{callId, content, isError}``, wrapped (role user, one ``tool-result`` block) and direct (role
tool). Only the literal ``true`` is an error; the call id is ``source.callId``, else ``toolCallId``.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType
from msgspec.json import encode

from operators.events import NULL, Shape, ToolResult

from .identity import canonical_raw, canonical_value, digest
from .jsontree import parse
from .rows import Reading, Row
from .shapes_messages import is_array, legacy_id, wrapped
from .typed import MISSING, Safe, Wire, given, lenient

# The wire structs below list their fields in sorted order and are closed: such a struct, written
# with its content left out, is the canonical JSON of what it was read from (identity.py).


class CallSource(Wire, forbid_unknown_fields=True):
    callId: str | UnsetType = UNSET  # noqa: N815
    kind: str | UnsetType = UNSET


class ResultBlock(Wire, forbid_unknown_fields=True):
    """The wrapper's block."""

    content: Raw | UnsetType = UNSET
    isError: bool | UnsetType = UNSET  # noqa: N815
    toolCallId: str | UnsetType = UNSET  # noqa: N815
    type: str | UnsetType = UNSET


class ResultMessage(Wire, forbid_unknown_fields=True):
    content: Raw | UnsetType = UNSET
    id: str | UnsetType = UNSET
    isError: bool | UnsetType = UNSET  # noqa: N815
    role: str | UnsetType = UNSET
    source: CallSource | UnsetType = UNSET
    toolCallId: str | UnsetType = UNSET  # noqa: N815


class ResultData(Wire, forbid_unknown_fields=True):
    callId: str | UnsetType = UNSET  # noqa: N815
    content: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET
    isError: bool | UnsetType = UNSET  # noqa: N815
    message: Raw | UnsetType = UNSET
    meta: Raw | UnsetType = UNSET
    step: Safe | UnsetType = UNSET
    turn: Safe | UnsetType = UNSET


class OpenSource(CallSource, forbid_unknown_fields=False):
    pass


class OpenBlock(ResultBlock, forbid_unknown_fields=False):
    pass


class OpenMessage(ResultMessage, forbid_unknown_fields=False):
    source: OpenSource | UnsetType = UNSET


class OpenData(ResultData, forbid_unknown_fields=False):
    pass


_MESSAGE: Final = msgspec.json.Decoder(ResultMessage).decode
_BLOCKS: Final = msgspec.json.Decoder(list[ResultBlock]).decode
_FLAT: Final = Shape.RESULT_FLAT.value
_WRAPPED: Final = Shape.RESULT_WRAPPED.value
_DIRECT: Final = Shape.RESULT_DIRECT.value


class ClosedResultRow(Row, kw_only=True, tag="tool/result"):
    """The fast reader's: data that holds the known fields alone. :meth:`read` raises DecodeError
    where the message holds others, and the exact reader takes over."""

    data: ResultData

    def read(self) -> Reading:
        data = self.data
        raw = data.message
        if raw is UNSET:
            content, data.content = data.content, UNSET
            identity = _digest(data)
            data.content = content
            return _flat(legacy_id(self), data, identity)
        message = _MESSAGE(raw)
        content = message.content
        block: ResultBlock | None = None
        if message.role == "tool":
            message.content = UNSET
        else:
            if content is UNSET or not (blocks := _BLOCKS(content)):
                raise DecodeError("a wrapper without a block")
            block = blocks[0]
            if not _is_wrapper(message.role, block.type):
                raise DecodeError("neither a wrapper nor a tool's message")
            content, block.content = block.content, UNSET
            message.content = [block]  # type: ignore[assignment]
        data.message = message  # type: ignore[assignment]
        return _result(raw, data, message, block, (content, _digest(data)))


class ResultRow(Row, tag="tool/result"):
    """The exact reader's: any data; unknown fields count for the identity, wrong ones are unset."""

    data: Raw = MISSING

    def read(self) -> Reading:
        raw = self.data
        node = parse(str(raw, "utf-8")) if len(raw) else None
        data: OpenData | None = None if node is None else lenient(node, OpenData)
        if node is None or data is None:
            return _flat("", OpenData(), digest(canonical_raw(raw) if len(raw) else b""))
        inner = node.member("message")
        message: OpenMessage | None = None if inner is None else lenient(inner, OpenMessage)
        if inner is None or message is None:
            identity = digest(canonical_value(_without(node.value, "content")))
            return _flat(legacy_id(self), data, identity)
        content = inner.member("content")
        first = content.items()[0] if content is not None and _filled(content.value) else None
        block = (first and lenient(first, OpenBlock)) or OpenBlock()
        bare = node.value
        if not _is_wrapper(message.role, block.type):
            bare = bare | {"message": _without(inner.value, "content")}
            what = message.content, digest(canonical_value(bare))
            return _result(_known(data.message), data, message, None, what)
        if first is not None:
            only = [_without(first.value, "content")]
            bare = bare | {"message": inner.value | {"content": only}}
        what = block.content, digest(canonical_value(bare))
        return _result(_known(data.message), data, message, block, what)


def _is_wrapper(role: object, block_type: object) -> bool:
    """Whether a result's message wraps it in a block (else it *is* the result)."""
    return role != "tool" and (role == "user" or block_type == "tool-result")


def _digest(data: ResultData) -> int:
    """The identity of closed data that holds no content any more."""
    error, meta = data.error, data.meta
    if error is not UNSET:
        data.error = Raw(canonical_raw(error))
    if meta is not UNSET:
        data.meta = Raw(canonical_raw(meta))
    identity = digest(encode(data))
    data.error, data.meta = error, meta
    return identity


def _result(
    raw: Raw,
    data: ResultData,
    message: ResultMessage,
    block: ResultBlock | None,
    what: tuple[Raw | UnsetType, int],
) -> Reading:
    """A result in a message; ``what`` is its content and its identity."""
    within = message if block is None else block
    call = UNSET if message.source is UNSET else message.source.callId
    if call is UNSET:
        call = within.toolCallId
    body = ToolResult(
        None if data.turn is UNSET else data.turn,
        None if data.step is UNSET else data.step,
        None if call is UNSET else call,
        None if message.id is UNSET else message.id,
        raw,
        NULL if what[0] is UNSET else what[0],
        within.isError is True,
        None if data.error is UNSET else given(data.error),
        None if data.meta is UNSET else given(data.meta),
        what[1],
    )
    return "tool/result", body, _DIRECT if block is None else _WRAPPED


def _flat(made: str, data: ResultData, identity: int) -> Reading:
    """A result without a message: flat, or nothing that can be read."""
    flat = data.callId is not UNSET or (data.content is not UNSET and is_array(data.content))
    body = ToolResult(
        None if data.turn is UNSET else data.turn,
        None if data.step is UNSET else data.step,
        None if data.callId is UNSET else data.callId,
        made if flat else None,
        _wrap_flat(made, data) if flat else _known(data.message),
        _known(data.content),
        data.isError is True,
        None if data.error is UNSET else given(data.error),
        None if data.meta is UNSET else given(data.meta),
        identity,
    )
    return "tool/result", body, _FLAT if flat else 0


def _known(raw: Raw | UnsetType) -> Raw:
    return NULL if raw is UNSET else raw


def _filled(value: object) -> bool:
    return type(value) is list and len(value) > 0


def _without(value: Any, key: str) -> Any:
    if type(value) is not dict:
        return value
    return {k: v for k, v in value.items() if k != key}


def _wrap_flat(id_: str, data: ResultData) -> Raw:
    """The role-user wrapper of a flat result."""
    block = b'"toolCallId":%b,' % encode(data.callId) if data.callId is not UNSET else b""
    content = b"[]" if data.content is UNSET else bytes(data.content)
    error = b',"isError":%b' % encode(data.isError) if data.isError is not UNSET else b""
    source = b',"callId":%b' % encode(data.callId) if data.callId is not UNSET else b""
    rest = b'[{"type":"tool-result",%b"content":%b%b}],"source":{"kind":"tool"%b}'
    return wrapped(id_, b"user", rest % (block, content, error, source))
