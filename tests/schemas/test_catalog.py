from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from importlib.resources import files
from typing import Any, get_type_hints

import pytest
from msgspec import Raw

from operators import changes
from schemas.catalog import load, read_files
from schemas.deadletter import DeadLetter, Header

# A published file never changes: a new shape is a new version. Add a line, edit none.
PUBLISHED = {
    "deadletter.v1.avsc": "1fb7453f356151a3dd9639be259f0f58a73804cc9d3a424a5b2ad33a26aa4156",
    "overview.v1.avsc": "1b88679dc7f778cb313e4374cb388417f5f42bd3ff30d8e4181287231b8c93ec",
    "overview.v2.avsc": "5b606a70689eebc47e61f4a946262a1a6c857e0e72e1a25b9c75c088d155e27b",
    "partials.v1.avsc": "1a5a42eaa09e630c0dec30d3e855070d88390cc0ef16cf2ff8446cb44f80bd8e",
    "session_line.v1.avsc": "805480515266d113e6b427904978ea903221181fc2c2fc122c9ab72a9c46c537",
    "surface.v1.avsc": "03d16e842c71a4b0745935d75189b93d30215a1494be590e1961b819b7a9734f",
    "transcript.v1.avsc": "35d00dc9afa0a508ce802577bb22874db17e4907edb361fa262c69d89e6e0447",
}

STRUCTS = {"DeadLetter": DeadLetter, "Header": Header} | {
    name: value for name, value in vars(changes).items() if isinstance(value, type)
}


def content(name: str, *fields: dict[str, Any]) -> bytes:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)}).encode()


def records(kind: Any) -> list[dict[str, Any]]:
    """Every named record in a schema."""
    if isinstance(kind, list):
        return [record for branch in kind for record in records(branch)]
    if not isinstance(kind, dict):
        return []
    inner = [kind.get("items"), *(field["type"] for field in kind.get("fields", ()))]
    return [kind] * (kind["type"] == "record") + records(inner)


def test_no_published_file_has_changed() -> None:
    folder = files("schemas") / "avsc"
    found = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.iterdir()}
    assert found == PUBLISHED


def test_every_subject_is_there_by_version_and_by_fingerprint() -> None:
    catalog = load()
    assert catalog.subjects() == [
        "deadletter", "overview", "partials", "session_line", "surface", "transcript",
    ]  # fmt: skip
    for subject in catalog.subjects():
        latest = catalog.latest(subject)
        assert catalog.get(subject, latest.version) is latest
        assert catalog.by_fingerprint(latest.fingerprint) is latest
        assert [s.version for s in catalog.versions(subject)] == list(range(1, latest.version + 1))
    assert catalog.get("surface", 99) is None
    assert catalog.by_fingerprint(0) is None
    assert catalog.versions("sonnets") == []
    with pytest.raises(KeyError):
        catalog.latest("sonnets")


def test_every_record_spells_its_struct_field_by_field() -> None:
    subjects = [load().latest(subject).source for subject in load().subjects()]
    seen = set()
    for record in records(subjects):
        if record["name"] in ("SessionLine", "Other"):
            continue
        struct: Any = STRUCTS[record["name"]]
        assert [field["name"] for field in record["fields"]] == list(struct.__struct_fields__)
        hints = get_type_hints(struct)
        for field in record["fields"]:
            hint = hints[field["name"]]
            opaque = hint in (Raw, Raw | None)
            assert field.get("json", False) is opaque, (record["name"], field["name"])
            if field["name"] != "session":  # None there never leaves the fold
                nullable = isinstance(field["type"], list)
                assert nullable is ("None" in str(hint)), (record["name"], field["name"])
        seen.add(record["name"])
    assert {kind.__name__ for kind in changes.RowData.__args__} <= seen


def test_every_change_begins_with_session_epoch_and_seq() -> None:
    for subject in ("surface", "transcript", "partials", "overview"):
        fields = load().latest(subject).source["fields"]
        assert [(f["name"], f["type"]) for f in fields[:3]] == [
            ("session", "string"), ("epoch", "int"), ("seq", "long"),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        ({"surface.avsc": content("A")}, "surface.avsc"),
        ({"surface.v0.avsc": content("A")}, "surface.v0"),
        ({"a.v1.avsc": content("A"), "a.v3.avsc": content("B")}, "version 3 is there, 2 is not"),
        ({"a.v1.avsc": content("A"), "b.v1.avsc": content("A")}, "one fingerprint"),
    ],
)
def test_files_that_make_no_catalog(contents: dict[str, bytes], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_files(contents)


def test_nothing_is_read_at_import() -> None:
    program = (
        "import schemas.catalog as c, schemas.outbound, schemas.codec, schemas.deadletter\n"
        "assert c.load.cache_info().misses == 0\n"
        "assert c.load() is c.load()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
