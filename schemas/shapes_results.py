"""``tool/result`` in its three shapes (session-log.md §2.5) → one body.

flat ``{callId, content, isError}``, wrapped (role user, one ``tool-result`` block) and direct (role
tool). Only the literal ``true`` is an error; the call id is ``source.callId``, else ``toolCallId``.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType
from msgspec.json import encode

from operators.events import NULL, Shape, ToolResult

from .identity import canonical_raw, canonical_value, digest
from .jsontree import parse
from .rows import Reading, Row
from .shapes_messages import is_array, legacy_id, wrapped
from .typed import MISSING, Safe, Typed, Wire, given

T = TypeVar("T")

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


_DATA: Final = msgspec.json.Decoder(ResultData).decode
_MESSAGE: Final = msgspec.json.Decoder(ResultMessage).decode
_ITEMS: Final = msgspec.json.Decoder(list[Raw]).decode
_BLOCK: Final = msgspec.json.Decoder(ResultBlock).decode
_OPEN_DATA: Final = Typed[OpenData](OpenData)
_OPEN_MESSAGE: Final = Typed[OpenMessage](OpenMessage)
_OPEN_BLOCK: Final = Typed[OpenBlock](OpenBlock)


class ResultRow(Row, tag="tool/result"):
    data: Raw = MISSING

    def read(self) -> Reading:
        try:
            parts = _closed(self.data)
        except (DecodeError, RecursionError):
            parts = _open(self.data)
        return ("tool/result", *_body(legacy_id(self), *parts))


def _is_wrapper(role: object, block_type: object) -> bool:
    """Whether a result's message wraps it in a block (else it *is* the result)."""
    return role != "tool" and (role == "user" or block_type == "tool-result")


def _closed(
    raw: Raw,
) -> tuple[ResultData, ResultMessage | None, ResultBlock | None, int]:
    """Data, message, wrapper block and identity of a result that holds the known fields alone."""
    data = _DATA(raw)
    if data.message is UNSET:
        return data, None, None, _digest(data, UNSET)
    message = _MESSAGE(data.message)
    content = message.content
    block: ResultBlock | None = None
    if message.role != "tool":
        items = _ITEMS(content) if content is not UNSET else []
        block = _BLOCK(items[0]) if items else ResultBlock()
        if _is_wrapper(message.role, block.type):
            inner, block.content = block.content, UNSET
            message.content = Raw(b"[" + encode(block) + b"]") if items else content
            block.content = inner
        else:
            block, message.content = None, UNSET
    else:
        message.content = UNSET
    canonical = Raw(encode(message))
    message.content = content
    return data, message, block, _digest(data, canonical)


def _digest(data: ResultData, message: Raw | UnsetType) -> int:
    """The identity of closed data whose message is canonical already."""
    error = data.error if data.error is UNSET else Raw(canonical_raw(data.error))
    meta = data.meta if data.meta is UNSET else Raw(canonical_raw(data.meta))
    bare = ResultData(data.callId, UNSET, error, data.isError, message, meta, data.step, data.turn)
    return digest(encode(bare))


def _open(
    raw: Raw,
) -> tuple[ResultData, ResultMessage | None, ResultBlock | None, int]:
    """The same of any data: unknown fields count for the identity, wrong ones are left unset."""
    node = parse(str(raw, "utf-8")) if len(raw) else None
    data = None if node is None else _OPEN_DATA.lenient(node)
    if node is None or data is None:
        return OpenData(), None, None, digest(canonical_raw(raw) if len(raw) else b"")
    inner = node.member("message")
    message = None if inner is None else _OPEN_MESSAGE.lenient(inner)
    if inner is None or message is None:
        return data, None, None, digest(canonical_value(_without(node.value, "content")))
    content = inner.member("content")
    first = content.items()[0] if content is not None and _filled(content.value) else None
    block = (first and _OPEN_BLOCK.lenient(first)) or OpenBlock()
    if not _is_wrapper(message.role, block.type):
        bare = node.value | {"message": _without(inner.value, "content")}
        return data, message, None, digest(canonical_value(bare))
    bare = node.value
    if first is not None:
        bare = node.value | {
            "message": inner.value | {"content": [_without(first.value, "content")]}
        }
    return data, message, block, digest(canonical_value(bare))


def _filled(value: object) -> bool:
    return type(value) is list and len(value) > 0


def _without(value: Any, key: str) -> Any:
    if type(value) is not dict:
        return value
    return {k: v for k, v in value.items() if k != key}


def _body(
    made: str,
    data: ResultData,
    message: ResultMessage | None,
    block: ResultBlock | None,
    identity: int,
) -> tuple[ToolResult, int]:
    """The body, and the bit of its shape."""
    id_: str | UnsetType
    raw: Raw | UnsetType
    holder: ResultMessage | ResultBlock | ResultData
    if message is not None:
        raw, id_ = data.message, message.id
        within = message if block is None else block
        call = message.source.callId if message.source is not UNSET else UNSET
        call = within.toolCallId if call is UNSET else call
        holder = within
        bit = Shape.RESULT_DIRECT if block is None else Shape.RESULT_WRAPPED
    elif data.callId is not UNSET or (data.content is not UNSET and is_array(data.content)):
        id_, call, holder, bit = made, data.callId, data, Shape.RESULT_FLAT
        raw = _wrap_flat(made, data)
    else:
        raw, id_, call, holder, bit = data.message, UNSET, UNSET, data, Shape(0)
    body = ToolResult(
        _given(data.turn),
        _given(data.step),
        _given(call),
        _given(id_),
        NULL if raw is UNSET else raw,
        NULL if holder.content is UNSET else holder.content,
        holder.isError is True,
        None if data.error is UNSET else given(data.error),
        None if data.meta is UNSET else given(data.meta),
        identity,
    )
    return body, bit.value


def _given(value: T | UnsetType) -> T | None:
    return None if value is UNSET else value


def _wrap_flat(id_: str, data: ResultData) -> Raw:
    """The role-user wrapper of a flat result."""
    block = b'"toolCallId":%b,' % encode(data.callId) if data.callId is not UNSET else b""
    content = b"[]" if data.content is UNSET else bytes(data.content)
    error = b',"isError":%b' % encode(data.isError) if data.isError is not UNSET else b""
    source = b',"callId":%b' % encode(data.callId) if data.callId is not UNSET else b""
    rest = b'[{"type":"tool-result",%b"content":%b%b}],"source":{"kind":"tool"%b}'
    return wrapped(id_, b"user", rest % (block, content, error, source))
