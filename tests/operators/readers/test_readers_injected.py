"""Liveness of injected context (readers.md §10)."""

from __future__ import annotations

from typing import Any

import pytest

from operators.events import Event, UserMessage
from operators.readers.injected import Change, InjectedValue, Liveness, liveness, runtime_text
from tests.operators.build import line
from tests.operators.readers.playing import Playing, tell
from tests.operators.records import Json, checkpoint, text, user

OWNER = {"kind": "plugin", "plugin": "@deepseek-ai/dsh-system-prompt", "form": "snapshot"}


def owned(**source: Any) -> Json:
    return user("ctx", source={**OWNER, **source})


def instructions(*changes: Any, kind: str = "agent-instructions") -> Json:
    return user("rules", source={"kind": kind, "changes": list(changes)})


def change(scope: str, action: str = "set", path: str = "p", **more: Any) -> Json:
    return {"action": action, "scope": scope, "path": path, **more}


def value(*log: Json) -> InjectedValue:
    found: InjectedValue = tell(*log).rooms["injected"].value()
    return found


def states(played: Playing) -> list[tuple[int, str, int | None]]:
    every = liveness(played.events, [node.seq for node in played.surface()], played.shadowed_by)
    return [(each.seq, each.state, each.by) for each in every]


@pytest.mark.parametrize(
    ("source", "runtime"),
    [
        (OWNER, 0),
        ({**OWNER, "plugin": "@fork/x-system-prompt"}, 0),
        ({**OWNER, "plugin": "@fork/system-prompt"}, 0),
        ({**OWNER, "plugin": "x-system-prompt"}, None),
        ({**OWNER, "plugin": "@fork/system-prompts"}, None),
        ({**OWNER, "kind": "other"}, None),
        ({"kind": "runtime-context"}, 0),
    ],
)
def test_who_owns_the_runtime_context(source: Json, runtime: int | None) -> None:
    assert value(user(source=source)).runtime_context == runtime


def test_the_newest_that_is_current_counts() -> None:
    log = [owned(), user(), owned()]
    assert value(*log).runtime_context == 2
    newest_gone = tell(*log, checkpoint(2, 2))
    assert newest_gone.rooms["injected"].value().runtime_context == 0
    assert states(newest_gone) == [(0, "alive", None), (2, "shadowed", 3), (3, "alive", None)]
    all_gone = value(*log, checkpoint(0, 2, [0, 1, 2]))
    assert (all_gone.runtime_context, all_gone.runtime_told, all_gone.shadowed) == (None, True, 2)
    assert not value(user()).runtime_told


def test_a_snapshot_is_superseded_by_the_next() -> None:
    assert states(tell(owned(), user(), owned(), owned())) == [
        (0, "superseded", 3),
        (2, "superseded", 3),
        (3, "alive", None),
    ]


def test_instructions_are_superseded_when_all_their_scopes_are() -> None:
    log = [
        instructions(change("a"), change("b")),
        instructions(change("a", "replace")),
        instructions(change("b", "remove")),
    ]
    assert states(tell(*log[:2])) == [(0, "alive", None), (1, "alive", None)]
    assert states(tell(*log)) == [(0, "superseded", 2), (1, "alive", None), (2, "alive", None)]


def test_an_earlier_change_is_in_force_again_when_the_later_one_is_shadowed() -> None:
    log = [instructions(change("a", digest="1")), instructions(change("a", "replace", digest="2"))]
    assert value(*log).instructions == (Change("replace", "a", "p", "2"),)
    assert value(*log, checkpoint(1, 1)).instructions == (Change("set", "a", "p", "1"),)


def test_malformed_changes_are_skipped_one_by_one() -> None:
    odd = [change("a", "odd"), change("b", path=5), 7, change("c", digest=3), change("d")]  # type: ignore[arg-type]
    assert value(instructions(*odd)).instructions == (Change("set", "d", "p"),)
    assert value(instructions(*odd, kind="workspace-instructions")).instructions
    assert value(instructions(*odd, kind="other")).instructions == ()


def test_scopes_stand_in_order_of_their_first_appearance() -> None:
    log = [instructions(change("b"), change("a")), instructions(change("b", "remove"))]
    assert [each.scope for each in value(*log).instructions] == ["b", "a"]


def test_a_checkpoint_is_a_context_and_a_user_message_is_none() -> None:
    played = tell(user(), checkpoint(0, 0))
    assert liveness(played.events, [node.seq for node in played.surface()], played.shadowed_by) == [
        Liveness(1, "compact-checkpoint", None, None, "replace", "alive")
    ]
    assert value(user()).alive == 0


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ([text("a")], "a"),
        ([text("a"), text("b")], None),
        ([], None),
        ("a", None),
        ([{"type": "image", "text": "a"}], None),
        ([{"type": "text", "text": 5}], None),
    ],
)
def test_text_of_a_runtime_context(content: Any, found: str | None) -> None:
    made = owned()
    made["data"]["content"] = content
    event = line({**made, "seq": 0, "time": 0})
    assert isinstance(event, Event)
    assert isinstance(event.body, UserMessage)
    assert runtime_text(event.body) == found
