"""Text for simulated sessions: plain words, and what breaks naive readers.

A lone surrogate cannot stand in a Python string that is encoded as UTF-8, so two private-use marks
stand for the halves of an emoji; the writer turns them into the JSON escapes a real log has.
"""

from __future__ import annotations

from random import Random

HIGH_MARK = "\uf8f0"
LOW_MARK = "\uf8f1"
HIGH_BYTES = HIGH_MARK.encode()
LOW_BYTES = LOW_MARK.encode()
EMOJI = "\U0001f642"  #: the two halves above, in one piece

WORDS = (  # noqa: SIM905 - 45 lines otherwise
    "the a session reads writes file test function fix error result compact history model tool "
    "call branch merge parser queue retry message step turn stream of and with for from into "
    "because after while returns fails passes checks builds updates moves keeps drops"
).split()
HOSTILE = (
    "\u202eright to left\u202c",
    "שלום עולם",
    "مرحبا",
    "会话 压缩 摘要",
    "👩\u200d👩\u200d👧\u200d👦",
    "e\u0301a\u0308o\u0302",
    "\u2028line\u2029paragraph",
    "\x00\x01\x1b\x7f",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "<script>alert(1)</script>",
    "</tag>&amp;<img src=x onerror=alert(1)>",
    "'; DROP TABLE rows; --",
    "${jndi:ldap://x}",
    '"quoted" back\\slash',
    "\ttab\r\nnew line\x0b\x0c",
    "\ufeff\u00a0\u200b",
    "naïve façade Ω ﷽",
    "{{placeholder}} %s %(x)d",
    "[... tool result middle pruned ...]",
    "<compacted-summary>not one</compacted-summary>",
    HIGH_MARK,
    LOW_MARK + "x",
    EMOJI,
    "1e400 9007199254740993 -0",
)
BLANK = (" ", "\n\t ", "\ufeff", "\u2028")

_MOST_PIECES = 24
_LONG = 70_000  #: code points; above 64 KiB of open text (projection.md §5.1)


class Words:
    """Makes texts from one random source."""

    def __init__(self, rng: Random, *, hostile: bool, long: bool) -> None:
        self._rng = rng
        self._hostile = hostile
        self._long = long

    def sentence(self, least: int = 3, most: int = 24) -> str:
        """A text of ``least`` … ``most`` words; hostile and very long ones when asked for."""
        rng = self._rng
        words = rng.choices(WORDS, k=least + int(rng.random() * (most - least + 1)))
        if self._hostile and rng.random() < 0.3:
            words[int(rng.random() * len(words))] = rng.choice(HOSTILE)
        text = " ".join(words)
        if self._long and rng.random() < 0.001:
            return text * (1 + _LONG // len(text))
        return text

    def blank(self) -> str:
        return self._rng.choice(BLANK)

    def pieces(self, text: str) -> list[str]:
        """The deltas in which a text arrives; an emoji may be cut between its halves."""
        rng = self._rng
        if self._hostile and EMOJI in text and rng.random() < 0.5:
            before, after = text.split(EMOJI, 1)
            return [*self._cut(before + HIGH_MARK), *self._cut(LOW_MARK + after)]
        return self._cut(text)

    def _cut(self, text: str) -> list[str]:
        size = max(4 + int(self._rng.random() * 28), 1 + len(text) // _MOST_PIECES)
        return [text[at : at + size] for at in range(0, len(text), size)]
