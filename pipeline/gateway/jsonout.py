"""JSON on its way out: what JavaScript and strict readers would misread is written so that they
cannot (streams.md §4).

Integers beyond 2^53 - 1, and numbers that no double holds, leave as strings of their own digits; an
unpaired surrogate half leaves as U+FFFD. Every other byte stays as it is.
"""

from __future__ import annotations

import re

MAX_SAFE = 2**53 - 1

_DIGITS = 16  #: of the smallest integer beyond
_SUSPECT = re.compile(rb"[0-9.]{16}|[eE][-+]?[0-9]{2}|\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*', re.DOTALL)
_HALF = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: it stays
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
    rb"|\\."  # an escaped backslash may stand before a u
    rb"|\xed[\xa0-\xbf][\x80-\xbf]",
    re.DOTALL,
)
_REPLACEMENT = "\ufffd".encode()


def safe(text: bytes) -> bytes:
    """``text``, which is JSON, as it may leave."""
    if _SUSPECT.search(text) is None:
        return text
    return _TOKEN.sub(_token, text)


def _token(found: re.Match[bytes]) -> bytes:
    token = found[0]
    if token[:1] == b'"':
        return _HALF.sub(_half, token) if b"\\u" in token or b"\xed" in token else token
    return token if _is_safe(token) else b'"%s"' % token


def _half(found: re.Match[bytes]) -> bytes:
    whole = found[0]
    lone = whole[:1] == b"\xed" or (len(whole) == 6 and whole[:2] == b"\\u")
    return _REPLACEMENT if lone else whole


def _is_safe(number: bytes) -> bool:
    if number.strip(b"-").isdigit():
        return len(number) < _DIGITS or (len(number) < 20 and abs(int(number)) <= MAX_SAFE)
    return abs(float(number)) != float("inf")
