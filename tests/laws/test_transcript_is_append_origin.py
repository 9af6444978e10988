"""Law 7: no replacement other than a checkpoint changes any row; no row is ever lost."""

from __future__ import annotations

from hypothesis import given

from operators.changes import AssistantData, PartialText, TranscriptRow
from operators.events import (
    Append,
    AssistantMessage,
    DeveloperMessage,
    Event,
    Replace,
    SystemMessage,
    UserMessage,
)
from operators.session import Out, Session
from tests.laws.folding import SESSION, read
from tests.laws.reader import Reader
from tests.strategies import any_logs

FOREVER = {"user", "steering", "context", "system", "tool", "command", "retry"} | {
    "turn-error",
    "max-tokens",
    "turn",
    "gap",
    "unknown",
}


@given(any_logs)
def test_transcript_is_append_origin(log: list[bytes]) -> None:
    state, reader = Session(SESSION), Reader()
    messages: set[tuple[int, bool]] = set()
    for line in read(log):
        before, out = state.next_seq, Out()
        state = state.fork()
        state.take(line, out)
        changes = out.changes(state)
        taken = state.next_seq > before and not out.refused
        if isinstance(line, Event) and taken and is_copy(line):
            rows = [c for c in changes if isinstance(c, TranscriptRow) and c.kind != "gap"]
            assert rows == []
            assert not any(isinstance(change, PartialText) for change in changes)
        for change in changes:
            if isinstance(change, TranscriptRow) and change.deleted:
                assert change.kind not in FOREVER, change
                held = reader.by_key[change.key]
                running = isinstance(held.data, AssistantData) and held.data.status == "running"
                assert held.kind == "compaction" or running, held
        reader.apply(changes)
        if isinstance(line, Event) and taken and isinstance(line.marker, Append):
            messages |= {(line.seq, isinstance(line.body, AssistantMessage))} & own_row(line)
    rows = reader.rows()
    anchors = {(row.anchor_seq, row.kind == "assistant") for row in rows}
    assert messages <= anchors


def is_copy(event: Event) -> bool:
    """A replacement that is no checkpoint."""
    if not isinstance(event.marker, Replace):
        return False
    return not (isinstance(event.body, UserMessage) and event.body.source.checkpoint is not None)


def own_row(event: Event) -> set[tuple[int, bool]]:
    """The anchor that must be there for ever for an append-origin message (a tool result may be a
    second one, and is then dropped)."""
    messages = UserMessage | AssistantMessage | SystemMessage | DeveloperMessage
    if isinstance(event.body, messages):
        return {(event.seq, isinstance(event.body, AssistantMessage))}
    return set()
