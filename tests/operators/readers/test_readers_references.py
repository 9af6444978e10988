"""Quotations of a session and their addresses (readers.md §8)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.readers.references import (
    AddressError,
    Item,
    Reference,
    Subject,
    address,
    mention,
    mentions,
    reference,
    retain,
    session_at,
    shortened,
)
from tests.operators.readers.playing import tell
from tests.operators.records import checkpoint, result, say, system, user

SUBJECT = Subject("s-1", "label", "/w", 7)
words = st.text(st.characters() | st.sampled_from('<"\\\n\x00é字🙂\ud800'), max_size=60)
items = st.lists(
    st.builds(Item, st.sampled_from(("user", "assistant")), words.filter(bool), st.booleans()),
    max_size=6,
)


@given(items, st.integers(0, 700))
def test_a_quotation_keeps_its_bounds(conversation: list[Item], budget: int) -> None:
    made = retain(conversation, SUBJECT, budget)
    if made is None:
        return
    assert made.bytes == len(made.data.encode()) <= budget
    assert "<" not in made.data
    told = json.loads(made.data)["conversation"]
    stats = made.stats
    assert len(told) == stats.retained_messages
    assert stats.retained_messages + stats.omitted_messages == stats.original_messages
    assert stats.truncated == (stats.omitted_messages > 0 or stats.omitted_bytes > 0)
    kept = sum(item.checkpoint for item in conversation[:-1]) + bool(conversation)
    assert len(told) >= kept, "the newest and every checkpoint stay"


@given(items)
def test_what_fits_is_whole(conversation: list[Item]) -> None:
    made = retain(conversation, SUBJECT, 10_000)
    assert made is not None
    told = [(each["role"], each["text"]) for each in json.loads(made.data)["conversation"]]
    assert told == [(item.role, item.text) for item in conversation]
    assert not made.stats.truncated
    assert retain(conversation, SUBJECT, made.bytes) == made
    smaller = retain(conversation, SUBJECT, made.bytes - 1)
    assert smaller is None or smaller.stats.truncated


@given(words.filter(bool), st.integers(0, 200))
def test_a_shortened_text_fits(text: str, target: int) -> None:
    original = text.encode("utf-8", "replace")
    target = min(target, len(original) - 1)  # as much has to go, else nothing is shortened
    made, missing = shortened(original, target)
    assert len(made.encode()) <= target
    assert 0 <= missing <= len(original)
    assert made == "" or f"omitted {missing} UTF-8 bytes" in made


def quote(*log: dict[str, object], budget: int = 65_536) -> list[tuple[str, str]]:
    played = tell(*log)
    nodes = [played.messages[node.seq] for node in played.surface()]
    made = reference(nodes, SUBJECT, budget)
    assert isinstance(made, Reference)
    return [(each["role"], each["text"]) for each in json.loads(made.data)["conversation"]]


def test_what_is_quoted() -> None:
    log = [
        system("sys"),
        user("q"),
        user("rules", source={"kind": "agent-instructions"}),
        user("quoted", source={"kind": "session-reference"}),
        say(
            "a", {"type": "reasoning", "text": "hm"}, {"type": "text", "text": " b "}, calls=("c",)
        ),
        result("c"),
        say(calls=("d",)),
        user("sum", source={"kind": "plugin", "plugin": "compact"}),
    ]
    assert quote(*log) == [("user", "q"), ("assistant", "a\n b "), ("user", "sum")]


def test_a_checkpoint_stands_where_it_replaces() -> None:
    log = [user("old"), say("old too"), user("new"), checkpoint(0, 1)]
    assert quote(*log) == [("user", "framed"), ("user", "new")]


def test_a_large_conversation_of_checkpoints_ends() -> None:
    """Overflow counts escaped bytes, shortening raw ones: many rounds, each of them small."""
    conversation = [Item("user", "<\n" * 500, True)] * 60
    made = retain(conversation, SUBJECT, 30_000)
    assert made is not None
    assert made.bytes <= 30_000
    assert made.stats.retained_messages == 60


# --- addresses ------------------------------------------------------------------------------------


@given(st.text())
def test_an_address_comes_back(session: str) -> None:
    assert session_at(address(session)) == session
    assert "=" not in address(session)


@pytest.mark.parametrize(
    "wrong",
    [
        "session:InMi",
        "dsh-session:",
        "dsh-session:InMi==",
        "dsh-session:ICJzIg",  # white space around the JSON
        "dsh-session:Ilx1MDA3MyI",  # "\u0073" for "s"
        "dsh-session:NQ",  # a number
        "dsh-session:In!!",
        "dsh-session:_w",
    ],
)
def test_an_address_is_canonical_or_none(wrong: str) -> None:
    with pytest.raises(AddressError):
        session_at(wrong)


@given(st.text(min_size=1), st.text())
def test_a_mention_is_found_again(session: str, label: str) -> None:
    assert mentions(f"see {mention(session, label)} there") == [(session, label)]


def test_mentions_are_distinct_three_and_never_oneself() -> None:
    text = " ".join(mention(each, each.upper()) for each in ("a", "b", "a", "me", "c", "d"))
    assert mentions(text, own="me") == [("a", "A"), ("b", "B"), ("c", "C")]
    assert mentions("@[x](https://example.org)") == []
