"""Which sessions are meant: patterns over their ids, as a shell writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate

ALL = "*"


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether a session id matches one of the patterns (``*``, ``?``, ``[a-f]``; case counts)."""
    wanted = re.compile("|".join(map(translate, patterns)) or r"(?!)").match
    return lambda session: wanted(session) is not None
