"""Hostile text made harmless for a terminal.

Whatever a log holds (model output, tool output, file names) must not move the cursor, recolour the
screen, reorder what is read or hide: every such character is shown as what it is.
"""

from __future__ import annotations

import re

# Controls (but newline and tab), DEL and C1; bidirectional marks, embeddings and isolates; zero
# width and other invisible characters, tags; line and paragraph separators; unpaired halves.
# Joiners (U+200C, U+200D) stay: scripts and emoji are written with them.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
# More marks on one letter than any script sets: they would reach over the lines around it.
_PILE = re.compile(
    "([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]{4})"
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]+"
)
_TAB = "    "


def visible(text: str) -> str:
    """Text of several lines: newlines stay, a tab is four blanks, the rest is shown by name."""
    plain = _UNSAFE.sub(_shown, text.replace("\r\n", "\n")).replace("\t", _TAB)
    return plain if plain.isascii() else _PILE.sub(r"\1", plain)


def visible_line(text: str) -> str:
    """The same for what must stay on its line: newlines are shown too."""
    return visible(text).replace("\n", "\u240a")


def steerless(document: bytes) -> bytes:
    """A JSON document with those characters as escapes: the same value, and nothing a terminal
    would obey. In JSON they can only stand inside strings."""
    text = document.decode("utf-8", "surrogatepass")
    return _UNSAFE.sub(_escaped, text).encode("utf-8", "surrogatepass")


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # U+2400 … are pictures of the controls
    if code == 0x7F:
        return "\u2421"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"<U+{code:04X}>"
