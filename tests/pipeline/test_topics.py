"""Names and settings of the topics, what differs, and what a worker refuses to start with."""

from __future__ import annotations

import pytest

from pipeline.errors import Fatal
from pipeline.topics import FOLD_ANEW, ROLES, Found, Names, differences, require, specs

NAMES = Names("s.", "app")


def found(partitions: int = 6, **other: int) -> dict[str, Found]:
    return {
        spec.name: Found(other.get(spec.role, spec.partitions), dict(spec.settings))
        for spec in specs(NAMES, partitions)
    }


def test_names() -> None:
    assert [NAMES.of(role) for role in ROLES] == [
        "s.events",
        "s.surface",
        "s.transcript",
        "s.partials",
        "s.overview",
        "s.deadletter",
        "app.state",
    ]
    with pytest.raises(ValueError, match="rows"):
        NAMES.of("rows")


def test_cleanup_as_the_contract_says() -> None:
    by_role = {spec.role: spec.settings for spec in specs(NAMES)}
    compacted = {role for role, it in by_role.items() if it["cleanup.policy"] == "compact"}
    assert compacted == {"transcript", "overview", "state"}
    assert by_role["events"]["retention.ms"] == by_role["surface"]["retention.ms"] == "-1"
    assert by_role["partials"]["retention.ms"] == "3600000"
    assert by_role["deadletter"]["retention.ms"] == "2592000000"
    assert int(by_role["events"]["max.message.bytes"]) >= 8 * 1024 * 1024
    assert int(by_role["surface"]["max.message.bytes"]) >= 16 * 1024 * 1024


def test_retention_told_otherwise_is_that_of_events_and_surface() -> None:
    by_role = {spec.role: spec.settings for spec in specs(NAMES, retention_ms=5)}
    assert {role for role, it in by_role.items() if it.get("retention.ms") == "5"} == {
        "events",
        "surface",
    }


def test_equal_topics_do_not_differ() -> None:
    assert differences(specs(NAMES), found()) == []
    assert require(NAMES, found(12)) == 12


def test_what_is_missing_comes_first_and_is_named() -> None:
    topics = found(surface=4)
    del topics["app.state"]
    first, second = differences(specs(NAMES), topics)
    assert (first.topic, first.what) == ("app.state", "is missing")
    assert second.topic == "s.surface"
    with pytest.raises(Fatal, match=r"app\.state is missing; if nothing has been folded yet, run"):
        require(NAMES, topics)


@pytest.mark.parametrize("role", ["surface", "transcript", "overview", "deadletter", "state"])
def test_an_output_is_never_said_to_come_back_by_itself(role: str) -> None:
    """Workers go on from the committed offsets: what they wrote before stays away."""
    others = {name: topic for name, topic in found().items() if name != NAMES.of(role)}
    (difference,) = differences(specs(NAMES), others)
    assert "delete the consumer group" in difference.fix
    assert "all of them" in difference.fix


def test_what_can_just_be_created_is() -> None:
    only = {"s.events": found()["s.events"]}
    del (topics := found())["s.partials"]
    create = "run `foldstream topics create`"
    assert {d.fix for d in differences(specs(NAMES), {})} == {create}
    assert [d.fix for d in differences(specs(NAMES), topics)] == [create]
    assert require(NAMES, found()) == 6
    assert all(create in d.fix for d in differences(specs(NAMES), only))


def test_a_wrong_setting_is_said_exactly_and_does_not_stop_a_worker() -> None:
    topics = found()
    topics["s.overview"] = Found(6, {"cleanup.policy": "delete"})
    (difference,) = differences(specs(NAMES), topics)
    assert str(difference) == (
        "s.overview: cleanup.policy is delete, should be compact; kafka-configs --alter "
        "--entity-type topics --entity-name s.overview --add-config cleanup.policy=compact"
    )
    assert require(NAMES, topics) == 6


@pytest.mark.parametrize(
    ("role", "has", "fix"),
    [
        ("transcript", 3, "kafka-topics --alter --topic s.transcript --partitions 6"),
        ("surface", 9, FOLD_ANEW),
        ("state", 7, FOLD_ANEW),
    ],
)
def test_a_worker_refuses_other_partition_counts(role: str, has: int, fix: str) -> None:
    with pytest.raises(Fatal, match=f"has {has} partitions, should have 6") as refused:
        require(NAMES, found(**{role: has}))
    assert fix in str(refused.value)


def test_the_dead_letters_may_have_any_number() -> None:
    assert require(NAMES, found(deadletter=17)) == 6


def test_the_events_topic_itself_is_never_to_be_grown() -> None:
    (difference, *_) = differences(specs(NAMES, 6), found(4))
    assert difference.topic == "s.events"
    assert "may not change its partition" in difference.fix
