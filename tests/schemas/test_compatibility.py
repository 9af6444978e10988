"""FULL_TRANSITIVE: every version of a subject reads, and is read by, all others (streams.md §1)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import combinations
from typing import Any

import avro.schema
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

from schemas.catalog import load

Change = Callable[[dict[str, Any]], None]


def reads(reader: dict[str, Any], writer: dict[str, Any]) -> bool:
    checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    verdict = checker.get_compatibility(
        avro.schema.make_avsc_object(reader), avro.schema.make_avsc_object(writer)
    )
    return bool(verdict.compatibility is SchemaCompatibilityType.compatible)


def both_ways(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return reads(one, other) and reads(other, one)


@pytest.mark.parametrize("subject", load().subjects())
def test_all_versions_read_one_another(subject: str) -> None:
    versions = load().versions(subject)
    for one, other in combinations(versions, 2):
        assert both_ways(one.source, other.source), (one.version, other.version)
    assert both_ways(versions[-1].source, copy.deepcopy(versions[-1].source))


def field(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return next(f for f in schema["fields"] if f["name"] == name)


def branches(schema: dict[str, Any]) -> list[Any]:
    kinds: list[Any] = field(schema, "data")["type"]
    return kinds


def add(schema: dict[str, Any], **new: Any) -> None:
    schema["fields"].append(new)


# A second version of the transcript that must not be published …
INCOMPATIBLE: dict[str, Change] = {
    "a field without default added": lambda s: add(s, name="mood", type="string"),
    "a field without default removed": lambda s: s["fields"].remove(field(s, "anchor_seq")),
    "a field renamed": lambda s: field(s, "key").update(name="row_key"),
    "a long made an int": lambda s: field(s, "seq").update(type="int"),
    "an int made a long": lambda s: field(s, "epoch").update(type="long"),
    "a nullable field made required": lambda s: field(s, "turn").update(type="long"),
    "a required field made nullable": lambda s: field(s, "rev").update(type=["null", "long"]),
    "a kind added to the union": lambda s: branches(s).append(
        {"type": "record", "name": "PollData", "fields": [{"name": "question", "type": "string"}]}
    ),
    "a kind taken from the union": lambda s: branches(s).pop(),
    "a field without default in a kind": lambda s: add(branches(s)[1], name="mood", type="long"),
    "another record name": lambda s: s.update(name="Row"),
}

# … and one that may.
COMPATIBLE: dict[str, Change] = {
    "a nullable field added": lambda s: add(s, name="mood", type=["null", "string"], default=None),
    "a field with a default removed": lambda s: s["fields"].remove(field(s, "truncated")),
    "a nullable field added to a kind": lambda s: add(
        branches(s)[1], name="mood", type=["null", "string"], default=None
    ),
    "a doc text": lambda s: field(s, "rev").update(doc="seq of the last event that changed it"),
}


@pytest.mark.parametrize("name", INCOMPATIBLE)
def test_the_check_rejects(name: str) -> None:
    candidate = copy.deepcopy(load().latest("transcript").source)
    INCOMPATIBLE[name](candidate)
    assert not both_ways(load().latest("transcript").source, candidate)


@pytest.mark.parametrize("name", COMPATIBLE)
def test_the_check_accepts(name: str) -> None:
    candidate = copy.deepcopy(load().latest("transcript").source)
    COMPATIBLE[name](candidate)
    assert both_ways(load().latest("transcript").source, candidate)
