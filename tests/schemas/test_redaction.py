"""What redaction takes, wherever it is told again, and what it leaves as it was."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from operators.changes import (
    PartialText,
    SessionOverview,
    SurfaceChange,
    TranscriptRow,
)
from schemas.redaction import Redaction
from schemas.redaction_rules import KINDS, REDACTED, Rule, fields_of
from tests.operators.build import json_of, lines_of, published, tell
from tests.operators.records import (
    Json,
    call,
    checkpoint,
    compaction_end,
    compaction_start,
    delta,
    done,
    nested,
    record,
    result,
    retry,
    run,
    say,
    step_start,
    summary,
    text,
    turn_end,
    turn_start,
    user,
)

SECRET = "sk-abcdef012345"
PATTERN = re.compile(r"sk-[a-z0-9]+")
EVERYWHERE = Redaction([Rule(PATTERN)])


def said(changes: list[Any]) -> str:
    return msgspec.json.encode([each for each in changes if each is not None]).decode()


def all_changes(*records: Json) -> list[Any]:
    return [change for changes in published(*records) for change in changes]


def data_of(changes: list[Any], kind: str) -> Any:
    """Of the last row of that kind."""
    rows = [each for each in changes if isinstance(each, TranscriptRow) and each.kind == kind]
    return rows[-1].data


def with_secrets() -> list[Json]:
    """A secret in every text that the harness writes."""
    header = {"type": "session", "version": 4, "id": "s-1", "createdAt": 1, "cwd": f"/{SECRET}"}
    title = {"title": SECRET, "source": {"kind": "user"}}
    arguments = json.dumps({"key": SECRET, "escaped": "\n" + SECRET})
    asked = call("a")
    asked["data"]["arguments"] = arguments
    answered = result("a", f"and {SECRET}.", meta={"x": SECRET})
    answered["data"]["meta"] = {SECRET: [SECRET, 12345678901234567890]}
    error = {"kind": "error", "error": {"code": SECRET, "message": SECRET}}
    failing = retry(1)
    failing["data"]["failure"] = {"message": SECRET}
    return [
        header,
        record("session/title", title),
        record("request/context", {"provider": SECRET, "model": SECRET}),
        turn_start(),
        user(f"my key is {SECRET}"),
        user(f"ctx {SECRET}", id_="c", source={"kind": "plugin", "plugin": SECRET, "form": SECRET}),
        step_start(),
        delta("half sk-abc"),
        delta("def012345 and more"),
        failing,
        say(
            f"it is {SECRET}", {"type": "tool-call", "id": "a", "name": "n", "arguments": arguments}
        ),
        asked,
        {
            **nested(settled=True),
            "data": {**nested(settled=True)["data"], "content": [text(SECRET)]},
        },
        answered,
        record("todo/write", {"todos": [{"content": SECRET, "status": "pending"}]}),
        turn_end(reason=error),
        run(args=SECRET),
        compaction_start(command="c"),
        summary(f"they said {SECRET}", command="c"),
        checkpoint(3, 9, [3, 4, 9, 12, 17], command="c"),
        compaction_end(command="c"),
        done(words=SECRET),
        record(f"x/{SECRET}", {"any": SECRET}, ignorable=True),
    ]


def test_a_pattern_is_taken_from_every_text_of_every_change() -> None:
    changes = all_changes(*with_secrets())
    assert said(changes).count(SECRET) > 20
    kinds = {each.kind for each in changes if isinstance(each, TranscriptRow)}
    assert kinds >= {"user", "context", "assistant", "tool", "retry", "turn-error", "unknown"}
    left = [EVERYWHERE(each) for each in changes]
    assert "sk-abc" not in said(left)
    assert REDACTED in said(left)


def test_what_streams_does_not_leave_before_it_is_whole() -> None:
    changes = all_changes(turn_start(), step_start(), delta("the key: sk-ab"), delta("cdef"))
    assert any(isinstance(each, PartialText) for each in changes)
    left = [found for each in changes if (found := EVERYWHERE(each)) is not None]
    assert not any(isinstance(each, PartialText) for each in left)
    assert json_of(data_of(left, "assistant").blocks) == []
    assert "sk-" not in said(left)
    elsewhere = Redaction([Rule(PATTERN, rows=frozenset(("user",)))])
    assert [elsewhere(each) for each in changes] == changes


def test_what_does_not_match_stays_byte_for_byte() -> None:
    odd = Raw(b'{"a" : 1e400,"b":[12345678901234567890, "\\ud800"],"c":"\\u0041", "key":"sk-a"}')
    change = SurfaceChange("s", 0, 1, "append", "tool/result", message=odd)
    left = EVERYWHERE(change)
    assert isinstance(left, SurfaceChange)
    assert left.message is not None
    assert bytes(left.message) == bytes(odd).replace(b"sk-a", REDACTED.encode())
    calm = SurfaceChange("s", 0, 1, "append", "user/message", message=Raw(b'{ "a" : "b" }'))
    assert EVERYWHERE(calm) == calm


@pytest.mark.parametrize(
    "spelled",
    [
        '{"k":"sk-abc"}',
        r'{"k":"\u0073k-abc"}',
        r'["\u0073\u006b-abc"]',
        json.dumps({"k": r'{"j":"\u0073k-abc"}'}),
    ],
)
def test_no_spelling_of_json_within_a_text_hides_a_match(spelled: str) -> None:
    asked = call("a")
    asked["data"]["arguments"] = spelled
    changes = all_changes(turn_start(), say(calls=("a",)), asked)
    left = [EVERYWHERE(each) for each in changes]
    told = data_of(left, "tool").arguments
    while told.startswith("{"):
        told = next(iter(json.loads(told).values()))
    assert "sk-abc" not in str(told)
    assert REDACTED in str(told)


# --- fields ---------------------------------------------------------------------------------------


def test_a_field_is_taken_whole_and_where_it_is_told_again() -> None:
    """The arguments of tools: of their rows, of the answer that announced them, of the surface."""
    take = Redaction([Rule(rows=frozenset(("tool",)), fields=frozenset(("arguments",)))])
    asked = call("a")
    asked["data"]["arguments"] = '{"private":1}'
    answer = {"type": "tool-call", "id": "a", "name": "n", "arguments": '{"private":1}'}
    changes = all_changes(turn_start(), step_start(), say("calling", answer), asked, result("a"))
    left = [take(each) for each in changes]
    assert "private" in said(changes)
    assert "private" not in said(left)
    assert data_of(left, "tool").arguments == REDACTED
    assert json_of(data_of(left, "tool").content)[0]["text"] == "done"
    assert "calling" in said([data_of(left, "assistant")])


def test_a_users_words_are_taken_from_the_title_made_of_them() -> None:
    take = Redaction([Rule(rows=frozenset(("user",)), fields=frozenset(("content",)))])
    told = tell(turn_start(), user("private words"), user("known", id_="c", source={"kind": "k"}))
    overview = take(told.overview)
    assert isinstance(overview, SessionOverview)
    assert overview.derived_title == REDACTED
    messages: list[Any] = [take(each) for each in told.surface]
    assert "private" not in said(messages)
    assert "known" in said(messages)  # a context's
    assert json_of(messages[0].message)["id"] == "m-1"


def test_a_summary_is_taken_from_the_checkpoint_too() -> None:
    take = Redaction([Rule(rows=frozenset(("compaction",)), fields=frozenset(("summary",)))])
    records = [user("one"), say("two"), compaction_start(), summary("private"),
               checkpoint(0, 1, [0, 1, 3])]  # fmt: skip
    records[-1]["data"]["content"] = [text("<summary>private</summary>")]
    changes = all_changes(*records)
    assert said(changes).count("private") >= 2
    left = [take(each) for each in changes]
    assert "private" not in said(left)
    assert "one" in said(left)


def test_fields_are_those_that_rows_have() -> None:
    assert fields_of(("tool",)) == {"arguments", "call_id", "content", "error", "meta", "name"}
    assert "summary" in fields_of(("command",))
    assert "goal" not in fields_of(())  # no text, but what holds texts
    assert {"title", "objective", "cwd"} <= fields_of(("overview",))
    assert set(KINDS) >= {"user", "tool", "overview"}


@given(st.text(), st.text(alphabet='sk-ab{}[]"\\u073 ', max_size=40))
def test_nothing_in_a_text_makes_it_fail(words: str, hostile: str) -> None:
    lines = [turn_start(), user(words), say(hostile), call(hostile), result(hostile, words)]
    assert lines_of(*lines)
    for change in all_changes(*lines):
        left = EVERYWHERE(change)
        assert left is not None
        assert not PATTERN.search(json.loads(said([left]))[0].get("derived_title") or "")
