"""Lengths as JavaScript counts them: UTF-16 code units, and those of ``JSON.stringify``'s text
(readers.md §1)."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import msgspec
from msgspec import DecodeError, Raw

_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
_SHORT: Final = frozenset('"\\\b\t\n\f\r')
_HALF: Final = re.compile("[\ud800-\udfff]")


class UnreadableError(ValueError):
    """JSON that is too deep for the stack it is read on."""


class _FloatError(ValueError):
    """A number that JavaScript may write in another way than it stands here."""


def _refuse(text: str) -> float:
    raise _FloatError(text)


_decode: Final = msgspec.json.Decoder(float_hook=_refuse).decode
_encode: Final = msgspec.json.Encoder().encode
_exact: Final = json.JSONDecoder(strict=False, parse_int=float, parse_float=float).decode


def units(text: str) -> int:
    """The length of ``text`` in UTF-16 code units; a surrogate half is one."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) >> 1


def json_value(raw: Raw) -> Any:
    """Any accepted JSON, surrogate halves kept, numbers as doubles; :class:`UnreadableError`."""
    try:
        return _exact(str(raw, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(str(error)) from None


def json_units(raw: Raw) -> int:
    """The length of ``JSON.stringify(JSON.parse(raw))``: compact, non-ASCII unescaped."""
    try:
        text = _encode(_decode(raw))
        return len(text) if text.isascii() else units(text.decode())
    except (_FloatError, DecodeError, UnicodeEncodeError, RecursionError):
        return value_units(json_value(raw))


def value_units(value: Any) -> int:
    """The same of a parsed value, whose numbers are doubles."""
    total, stack = 0, [value]
    while stack:
        item = stack.pop()
        if item is None or item is True:
            total += 4
        elif item is False:
            total += 5
        elif isinstance(item, str):
            total += _string(item)
        elif isinstance(item, float):
            total += len(number(item))
        elif isinstance(item, dict):
            total += 1 + max(1, 2 * len(item)) + sum(map(_string, item))
            stack += item.values()
        else:
            total += 1 + max(1, len(item))
            stack += item
    return total


def number(value: float) -> str:
    """A double as JavaScript writes it; one that is beyond every double is ``null``."""
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value!r}".lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, part = mantissa.lstrip("-").partition(".")
    part = "" if part == "0" else part
    point = len(whole) + int(exponent or 0)  # where the point stands in the digits
    digits = (whole + part).lstrip("0")
    point -= len(whole + part) - len(digits)
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        if len(digits) <= point:
            return sign + digits.ljust(point, "0")
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"


def _string(text: str) -> int:
    """A string with its quotes: escapes of two or six characters, halves as escapes of six."""
    length = units(text) + 2
    if _ESCAPED.search(text):
        length += sum(1 if found in _SHORT else 5 for found in _ESCAPED.findall(text))
    if not text.isascii() and _HALF.search(text):
        length += 5 * len(_HALF.findall(text))
    return length
