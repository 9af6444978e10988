"""The request header in force: what it costs, and whether another one is its equal (readers.md §5).

Two are equal in provider, model, effort, temperature, token limit, stop sequences, the adapter's
two defaults, system text and tools; empty ones of the last two are absent, and nothing else counts.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from .estimate import text_price, tools_price
from .javascript import json_value, units

_CONFIG: Final = ("provider", "model", "reasoningEffort", "temperature", "maxTokens", "stop")
_FLAGS: Final = ("reasoningEffort", "maxTokens")
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class HeaderFacts(Struct, frozen=True, array_like=True, gc=False):
    """Estimated tokens, and digests: ``identity`` of all that makes headers equal, ``prompt`` of
    what a cache of the prompt depends on (provider, model, system, tools)."""

    system: int = 0
    tools: int = 0
    identity: str = ""
    prompt: str = ""

    @property
    def tokens(self) -> int:
        return self.system + self.tools


NO_HEADER: Final = HeaderFacts()


def read_header(raw: Raw) -> HeaderFacts:
    """The facts of a header as logged; of one that is no object, those of an empty one."""
    try:
        value = _decode(raw)
    except (DecodeError, RecursionError):
        value = json_value(raw)
    header = value if isinstance(value, dict) else {}
    config = header.get("config")
    config = config if isinstance(config, dict) else {}
    defaults = header.get("adapterDefaults")
    defaults = defaults if isinstance(defaults, dict) else {}
    system, tools = header.get("system") or None, header.get("tools") or None
    text = system if isinstance(system, str) else ""
    settings = [_plain(config.get(key)) for key in _CONFIG]
    flags = [defaults.get(key) is True for key in _FLAGS]
    body = _digest([system, tools])
    return HeaderFacts(
        text_price(units(text)) if text else 0,
        0 if tools is None else tools_price(Raw(_text(tools))),
        _digest([settings, flags, body]),
        _digest([settings[:2], body]),
    )


def _plain(value: Any) -> Any:
    """A number by its value: 1.0 is 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(value: Any) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:  # half characters: any injective text will do for a digest
        return msgspec.json.encode(repr(value))


def _digest(value: Any) -> str:
    return blake2b(_text(value), digest_size=8).hexdigest()
