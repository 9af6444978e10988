"""Which very topics were folded, as it goes with each committed offset."""

from __future__ import annotations

import pytest

from pipeline import identity
from pipeline.errors import Fatal
from pipeline.identity import Identity, made_again, parsed, require_same
from pipeline.topics import ROLES, Found, Names, largest_batch

NAMES = Names("s.", "app")
THEN = Identity(6, {role: f"{role}1" for role in ROLES})


def with_(ids: dict[str, str], partitions: int = 6) -> Identity:
    return Identity(partitions, {**THEN.ids, **ids})


def test_it_comes_back_from_the_metadata_of_an_offset() -> None:
    assert parsed(str(THEN)) == THEN
    assert len(str(with_(dict.fromkeys(ROLES, "x" * identity.ID_LENGTH)))) < 1_000
    for other in ("", "by hand", "3f", "partitions=six events=1"):
        assert parsed(other) is None


def test_it_is_of_the_topics_that_there_are() -> None:
    found = {
        "s.events": Found(4, {}, "11b26c8d-8a54-446c-9d75-150567fb2a08"),
        "app.state": Found(4, {}),
    }
    assert identity.of(NAMES, found) == Identity(4, {"events": "11b26c8d8a54446c"})


@pytest.mark.parametrize("role", ["events", "surface", "transcript", "overview", "state"])
def test_another_topic_of_the_name_is_refused(role: str) -> None:
    require_same(NAMES, THEN, THEN)
    with pytest.raises(Fatal, match=f"^{NAMES.of(role)} was deleted and made again"):
        require_same(NAMES, with_({role: "2"}), THEN)


def test_what_expires_anyway_is_only_told() -> None:
    now = with_({"partials": "2", "deadletter": "2"})
    require_same(NAMES, now, THEN)
    assert made_again(now, THEN) == ["partials", "deadletter"]


def test_events_must_not_have_grown() -> None:
    with pytest.raises(Fatal, match=r"s\.events has 8 partitions and was folded with 6"):
        require_same(NAMES, with_({}, 8), THEN)


def test_a_group_is_one_deployments() -> None:
    identity.require_own_group(NAMES, ["s.events"])
    with pytest.raises(Fatal, match=r"offsets of t\.events"):
        identity.require_own_group(NAMES, ["s.events", "t.events"])


def test_a_batch_is_no_larger_than_any_topic_takes() -> None:
    assert largest_batch([Found(1, {"max.message.bytes": "20000"}), Found(1, {})]) == 20_000
    assert largest_batch([Found(1, {"max.message.bytes": "99999999"})]) == 128 * 1024
