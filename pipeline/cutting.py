"""Text that is too long to be read, made shorter; it says by how much."""

from __future__ import annotations

import re

from .plain import visible

LINE_CHARS = 2_000  #: of a line that a person only glances at: output, arguments
WORD_CHARS = 200  #: of a word that nobody reads (base64, minified code), how much is shown …
#: … and which those are. Some scripts do without blanks: there, only where no text goes on.
_HUGE = re.compile(r"[!-~]{1000,}|\S{20000,}")


def readable(text: str) -> str:
    """Text of any length as a terminal may show it, without the inside of huge words."""
    return visible(_HUGE.sub(_shortened, text))


def cut(line: str) -> str:
    """A line, or its beginning."""
    more = len(line) - LINE_CHARS
    return line if more <= 0 else f"{line[:LINE_CHARS]}… ({more} more characters)"


def _shortened(word: re.Match[str]) -> str:
    return f"{word[0][:WORD_CHARS]}… ({len(word[0]) - WORD_CHARS} more characters)"
