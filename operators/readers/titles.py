"""The title, the one that is offered while there is none, and what a session list shows
(readers.md §6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Raw, Struct

from operators.events import NULL, Event, Title, TurnStart, UserMessage
from operators.text import well_formed

from .facts import kept, record
from .held import Handlers, Held, Shadowed
from .text import clean, encoded, head, plain, texts, trimmed

WORDS, BYTES = 5, 40  #: of a title made of the first prompt


def eligible(body: UserMessage) -> str:
    """A user's own text, cleaned: what a title may be made of; empty if it is none. Copies count
    too, and so does what was sent while a turn ran."""
    return clean("\n".join(texts(body.content))) if body.source.kind == "user" else ""


def fallback(text: str, words: int = WORDS, size: int = BYTES) -> str:
    """A title out of a prompt: its first words, within so many bytes of UTF-8."""
    line = " ".join(clean(text).split(" ")[:words])
    return trimmed(head(encoded(line), size).decode())


def eligible_seqs(events: Iterable[Event]) -> list[int]:
    """Which messages of a log a title may be made of, in log order."""
    return [e.seq for e in events if isinstance(e.body, UserMessage) and eligible(e.body)]


# --- the title ------------------------------------------------------------------------------------


class Headline(Struct, frozen=True, array_like=True, gc=False):
    """The newest title, and the title that the first prompt would give (``""``: none yet)."""

    title: str | None = None
    message_seqs: Raw = NULL
    source: Raw = NULL
    seq: int | None = None
    time: int | None = None
    fallback: str = ""


class TitleValue(Struct, frozen=True, gc=False):
    """``derived``: the title offered while ``title`` is None; no event says it."""

    title: str | None
    derived: str | None


class Titles(Held[Headline]):
    """Last title wins; the fallback is that of the first eligible message."""

    __slots__ = ()
    EMPTY = Headline()

    def on_title(self, event: Event, body: Title, _: Shadowed) -> str | None:
        if body.title is None:
            return "reader:title"
        data, state = record(body.data), self.state
        self.state = Headline(
            body.title,
            kept(data.get("messageSeqs")),
            kept(data.get("source")),
            event.seq,
            event.time,
            state.fallback,
        )
        return None

    def on_user(self, _: Event, body: UserMessage, __: Shadowed) -> str | None:
        if not self.state.fallback and (text := eligible(body)):
            old = self.state
            made = fallback(text)
            self.state = Headline(old.title, old.message_seqs, old.source, old.seq, old.time, made)
        return None

    def value(self) -> TitleValue:
        state = self.state
        title = None if state.title is None else well_formed(state.title)
        return TitleValue(title, None if title is not None else state.fallback or None)

    def reference(self) -> dict[str, Any]:
        """The reference's keys; without the eligible seqs, which no state keeps."""
        state = self.state
        snapshot = None
        if state.title is not None:
            snapshot = {
                "title": state.title,
                "messageSeqs": plain(state.message_seqs),
                "source": plain(state.source),
                "eventSeq": state.seq,
                "updatedAt": state.time,
            }
        told: dict[str, Any] = {"value": state.title, "snapshot": snapshot}
        return told | ({"fallback": state.fallback} if state.fallback else {})


TITLES: Handlers = {Title: Titles.on_title, UserMessage: Titles.on_user}


# --- the list's line ------------------------------------------------------------------------------


class Listing(Struct, frozen=True, array_like=True, gc=False):
    blank: bool = True
    last_prompt_at: int | None = None


class ListMetadata(Held[Listing]):
    """Blank until a turn starts; the time of the last prompt in log order, which may go back."""

    __slots__ = ()
    EMPTY = Listing()

    def on_turn_start(self, _: Event, __: TurnStart, ___: Shadowed) -> str | None:
        if self.state.blank:
            self.state = Listing(False, self.state.last_prompt_at)
        return None

    def on_user(self, event: Event, body: UserMessage, _: Shadowed) -> str | None:
        if body.source.kind == "user" and event.time is not None:
            self.state = Listing(self.state.blank, event.time)
        return None

    def value(self) -> Listing:
        return self.state

    def reference(self) -> dict[str, Any]:
        return {"blank": self.state.blank, "lastPromptAt": self.state.last_prompt_at}

    def list_time(self, created_at: int | None) -> int:
        """What a list of sessions sorts by."""
        return max(created_at or 0, self.state.last_prompt_at or 0)


LISTING: Handlers = {
    TurnStart: ListMetadata.on_turn_start,
    UserMessage: ListMetadata.on_user,
}
