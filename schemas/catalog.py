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

_NAME = re.compile(r"(?P<subject>[a-z][a-z_]*)\.v(?P<version>[1-9][0-9]*)\.avsc")


class Schema(Struct, frozen=True):
    """One schema: ``source`` the file's JSON, ``parsed`` the same prepared for fastavro."""

    subject: str
    version: int
    fingerprint: int
    source: dict[str, Any]
    parsed: Any


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
            subject, version, fingerprint(source), source, parse_schema(source)
        )
    for subject, version in schemas:
        if version > 1 and (subject, version - 1) not in schemas:
            raise ValueError(f"{subject}: version {version} is there, {version - 1} is not")
    if len({s.fingerprint for s in schemas.values()}) < len(schemas):
        raise ValueError("two schema files have one fingerprint: readers cannot tell them apart")
    return Catalog(schemas)


@cache
def load() -> Catalog:
    """The catalog of the package's own ``avsc/``, read on the first call."""
    folder = files(__package__) / "avsc"
    return read_files({f.name: f.read_bytes() for f in folder.iterdir() if f.name[0] != "."})
