"""Quoting one session inside another: a bounded projection of its surface (readers.md §8).

What is quoted is what the model sees now: the user's messages and the checkpoints, the assistant's
answers. Injected context, tools, system messages and reasoning stay out; so does any quotation in
it, as a quotation is injected context.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import json
import re
from collections.abc import Iterable, Sequence

from msgspec import Raw, Struct

from .text import encoded, head, js_json, plain, tail

BUDGET = 65_536  #: bytes of a quotation
MAX_SESSIONS = 3  #: distinct sessions that one message may quote
SCHEME = "dsh-session:"


class Item(Struct, frozen=True, gc=False):
    """One message of the conversation; ``role`` user or assistant."""

    role: str
    text: str
    checkpoint: bool = False


class Subject(Struct, frozen=True, gc=False):
    """Whose surface it is; ``through``: last seq of its log, None of an empty one."""

    session: str
    label: str
    cwd: str | None
    through: int | None


class Stats(Struct, frozen=True, gc=False, rename="camel"):
    """What was left out; ``omitted_bytes`` counts UTF-8, whole messages and parts of others."""

    compacted: bool
    original_messages: int
    retained_messages: int
    omitted_messages: int
    omitted_bytes: int
    truncated: bool


class Reference(Struct, frozen=True, gc=False):
    """``data``: the quotation as the reference writes it, ``<`` escaped; ``bytes`` its size."""

    bytes: int
    data: str
    stats: Stats


def item_of(type_: str | None, message: Raw | None) -> Item | None:
    """What a current node's message adds, None if nothing: ``type_`` is its event's type."""
    if message is None or type_ not in ("user/message", "assistant/message"):
        return None
    told = plain(message)
    if not isinstance(told, dict):
        return None
    text = "\n".join(_texts(told.get("content")))
    if not text:
        return None
    if type_ == "assistant/message":
        return Item("assistant", text)
    source = told.get("source")
    source = source if isinstance(source, dict) else {}
    kind = source.get("kind")
    checkpoint = kind == "compact-checkpoint" or (
        kind == "plugin" and source.get("plugin") == "compact"
    )
    return Item("user", text, checkpoint) if checkpoint or kind == "user" else None


def _texts(content: object) -> Iterable[str]:
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "text":
            text = block.get("text")
            if isinstance(text, str):
                yield text


def reference(
    nodes: Iterable[tuple[str | None, Raw | None]], subject: Subject, budget: int = BUDGET
) -> Reference | None:
    """The quotation of a surface within ``budget`` bytes; None if nothing usable fits. ``nodes``:
    type and message of each current node, in surface order."""
    items = [item for type_, message in nodes if (item := item_of(type_, message)) is not None]
    return retain(items, subject, budget)


# --- the budget -----------------------------------------------------------------------------------


class _Kept:
    """An item that stays: its text as it is now, and what it costs."""

    __slots__ = ("item", "missing", "original", "text")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.original = encoded(item.text)
        self.text = item.text
        self.missing = 0

    @property
    def size(self) -> int:
        return len(encoded(self.text))

    @property
    def cost(self) -> int:
        return len(encoded(_escaped({"role": self.item.role, "text": self.text})))


def retain(items: Sequence[Item], subject: Subject, budget: int) -> Reference | None:
    """First whole messages go, the oldest first, but no checkpoint and not the newest; then the
    longest texts that are left lose their middle."""
    kept = [_Kept(item) for item in items]
    frame = len(encoded(_data(subject, [])))
    total = frame + sum(each.cost for each in kept) + max(0, len(kept) - 1)
    gone: list[_Kept] = []
    staying: list[_Kept] = []
    for at, each in enumerate(kept):
        if total <= budget or each.item.checkpoint or at == len(kept) - 1:
            staying.append(each)
        else:
            gone.append(each)
            total -= each.cost + 1
    if not _shorten_all(staying, total, budget):
        return None
    data = _data(subject, staying)
    missing = sum(len(each.original) for each in gone) + sum(each.missing for each in staying)
    stats = Stats(
        any(item.checkpoint for item in items),
        len(items),
        len(staying),
        len(gone),
        missing,
        bool(gone) or missing > 0,
    )
    return Reference(len(encoded(data)), data, stats)


def _shorten_all(kept: list[_Kept], total: int, budget: int) -> bool:
    """Shorten the longest text again and again until all fits; whether it does."""
    longest = [(-each.size, at) for at, each in enumerate(kept) if each.text]
    heapq.heapify(longest)
    while total > budget:
        if not longest:
            return False
        size, at = heapq.heappop(longest)
        each = kept[at]
        before, cost = each.text, each.cost
        each.text, each.missing = shortened(each.original, max(0, -size - (total - budget)))
        if each.text == before:
            return False
        total += each.cost - cost
        if each.text:
            heapq.heappush(longest, (-each.size, at))
    return True


def shortened(original: bytes, target: int) -> tuple[str, int]:
    """Head and tail of a text, then a note of how much is missing, within ``target`` bytes
    (fewer than it has), and how many bytes are; nothing at all if not even the note fits."""
    best, missing = "", len(original)
    low, high = 0, target
    while low <= high:
        middle = (low + high) // 2
        start, end = head(original, (middle + 1) // 2), tail(original, middle // 2)
        left_out = len(original) - len(start) - len(end)
        text = f"{(start + end).decode()}\n[… omitted {left_out} UTF-8 bytes …]"
        if len(text.encode()) <= target:
            best, missing = text, left_out
            low = middle + 1
        else:
            high = middle - 1
    return best, missing


def _data(subject: Subject, kept: Iterable[_Kept]) -> str:
    return _escaped(
        {
            "sessionId": subject.session,
            "label": subject.label,
            "cwd": subject.cwd,
            "capturedThroughSeq": subject.through,
            "conversation": [{"role": each.item.role, "text": each.text} for each in kept],
        }
    )


def _escaped(value: object) -> str:
    return js_json(value).replace("<", "\\u003c")


# --- addresses ------------------------------------------------------------------------------------

_MENTION = re.compile(r"@\[((?:[^\\\]]|\\.)*)\]\(([^)\s]*)\)", re.DOTALL)


class AddressError(ValueError):
    """No address of a session, or not the one way to write it."""


def address(session: str) -> str:
    """The address of a session id."""
    text = encoded(js_json(session))
    return SCHEME + base64.urlsafe_b64encode(text).decode().rstrip("=")


def session_at(text: str) -> str:
    """The session id of an address. Raises `AddressError`."""
    if not text.startswith(SCHEME):
        raise AddressError(f"an address begins with {SCHEME}")
    coded = text[len(SCHEME) :]
    try:
        told = base64.b64decode(coded + "=" * (-len(coded) % 4), altchars=b"-_", validate=True)
        session = json.loads(told)
    except (binascii.Error, ValueError, RecursionError):
        raise AddressError("no session id is coded in this address") from None
    if not isinstance(session, str) or address(session) != text:
        raise AddressError("not the canonical address of a session id")
    return session


def mention(session: str, label: str) -> str:
    """How a message names a session it quotes."""
    escaped = label.replace("\\", "\\\\").replace("]", "\\]")
    return f"@[{escaped}]({address(session)})"


def mentions(text: str, own: str | None = None) -> list[tuple[str, str]]:
    """The sessions that a message quotes, as (id, label): distinct ones in order of appearance, at
    most three, never ``own``. Raises `AddressError` for an address that is not canonical."""
    found: dict[str, str] = {}
    for label, where in _MENTION.findall(text):
        if where.startswith(SCHEME):
            session = session_at(where)
            if session != own:
                found.setdefault(session, re.sub(r"\\(.)", r"\1", label, flags=re.DOTALL))
    return list(found.items())[:MAX_SESSIONS]
