"""The schemas of every subject and version, as files that never change once published.

``avsc/<subject>.v<N>.avsc``; a change of shape is a new file that is FULL_TRANSITIVE compatible
with all before it (streams.md §1). Nothing is read at import: :func:`load` reads once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from fastavro.schema import parse_schema
from msgspec import Struct

from .wire import fingerprint

MAX_DEPTH = 260
"""How deep a record may hold itself (projection.md §5.2 ends nested calls at 256)."""

_NAME = re.compile(r"(?P<subject>[a-z][a-z_]*)\.v(?P<version>[1-9][0-9]*)\.avsc")


class Schema(Struct, frozen=True):
    """One schema: ``source`` the file's JSON, ``parsed`` the same prepared for fastavro,
    ``guarded`` the same for bodies that may nest too deep (:func:`unrolled`)."""

    subject: str
    version: int
    fingerprint: int
    source: dict[str, Any]
    parsed: Any
    guarded: Any


class Catalog:
    """Schemas by (subject, version) and by fingerprint. Unchanged once made."""

    def __init__(self, schemas: Mapping[tuple[str, int], Schema]) -> None:
        self._schemas = dict(schemas)
        self._by_fingerprint = {s.fingerprint: s for s in self._schemas.values()}
        self._versions: dict[str, list[Schema]] = {}
        for key in sorted(self._schemas):
            self._versions.setdefault(key[0], []).append(self._schemas[key])

    def get(self, subject: str, version: int) -> Schema | None:
        return self._schemas.get((subject, version))

    def versions(self, subject: str) -> list[Schema]:
        """All versions of a subject, the oldest first; none for an unknown one."""
        return list(self._versions.get(subject, ()))

    def latest(self, subject: str) -> Schema:
        """The version that is written. KeyError: no such subject."""
        return self._versions[subject][-1]

    def by_fingerprint(self, value: int) -> Schema | None:
        return self._by_fingerprint.get(value)

    def subjects(self) -> list[str]:
        return list(self._versions)


def read_files(contents: Mapping[str, bytes]) -> Catalog:
    """A catalog of ``contents`` (file name to bytes).

    ValueError: a name that is no ``<subject>.v<N>.avsc``, a version left out, or two schemas that
    no reader could tell apart (an equal fingerprint)."""
    schemas: dict[tuple[str, int], Schema] = {}
    for name in sorted(contents):
        matched = _NAME.fullmatch(name)
        if matched is None:
            raise ValueError(f"{name}: a schema file is named <subject>.v<N>.avsc")
        source = json.loads(contents[name])
        subject, version = matched["subject"], int(matched["version"])
        schemas[subject, version] = Schema(
            subject=subject,
            version=version,
            fingerprint=fingerprint(source),
            source=source,
            parsed=parse_schema(source),
            guarded=parse_schema(unrolled(source)),
        )
    for subject, version in schemas:
        if version > 1 and (subject, version - 1) not in schemas:
            raise ValueError(f"{subject}: version {version} is there, {version - 1} is not")
    if len({s.fingerprint for s in schemas.values()}) < len(schemas):
        raise ValueError("two schema files have one fingerprint: readers cannot tell them apart")
    return Catalog(schemas)


def unrolled(schema: Any) -> Any:
    """The schema with every record that holds itself spelled out to :data:`MAX_DEPTH` levels.

    The bytes are the same, and hostile ones cannot nest without end: fastavro's reader recurses on
    the C stack without a guard. At the deepest level ``bytes`` stand for the record."""
    if isinstance(schema, list):
        return [unrolled(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema["type"] != "record":
        return {key: unrolled(value) for key, value in schema.items()}
    fields = [{**field, "type": unrolled(field["type"])} for field in schema["fields"]]
    record = {**schema, "fields": fields}
    if _with(fields, record["name"], "bytes") == fields:
        return record
    inner: Any = "bytes"
    for level in range(MAX_DEPTH, 0, -1):
        name = f"{record['name']}{level}" if level > 1 else record["name"]
        inner = {**record, "name": name, "fields": _with(fields, record["name"], inner)}
    return inner


def _with(kind: Any, name: str, inner: Any) -> Any:
    """``kind`` with ``inner`` where it names ``name`` as a type."""
    if isinstance(kind, list):
        return [_with(member, name, inner) for member in kind]
    if isinstance(kind, dict):
        return {
            key: _with(value, name, inner) if key in ("type", "items", "values") else value
            for key, value in kind.items()
        }
    return inner if kind == name else kind


@cache
def load() -> Catalog:
    """The catalog of the package's own ``avsc/``, read on the first call."""
    folder = files(__package__) / "avsc"
    return read_files({f.name: f.read_bytes() for f in folder.iterdir() if f.name[0] != "."})
