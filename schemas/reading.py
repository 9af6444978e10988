"""Transcripts from topic values, for a plain Kafka client: no group, no worker, no broker here.

from kafka import KafkaConsumer
from schemas.reading import transcripts

consumer = KafkaConsumer(
    "sessions.transcript", "sessions.overview", bootstrap_servers="localhost:9092",
    isolation_level="read_committed", auto_offset_reset="earliest", consumer_timeout_ms=2000)
for session, rows in transcripts(record.value for record in consumer).items():
    for row in rows:
        print(session, row["kind"], row["data"])
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .codec import read
from .errors import ReadError, Refusal


def transcripts(values: Iterable[bytes | None]) -> dict[str, list[dict[str, Any]]]:
    """The present rows of every session, as a person reads them: visible ones and auxiliary ones,
    in order, deleted ones left out. Names as in outputs.md §1; opaque JSON as text.

    ``values``: the values of the transcript topic from its start, those of the overview topic
    among them or not. Of one key the highest (epoch, rev) counts, in whatever order they come;
    rows of an epoch below the session's newest are left out (streams.md §4). ReadError: a value
    that is no Avro of ours."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    epochs: dict[str, int] = {}
    for value in values:
        if value is None:  # a tombstone: retention by hand
            continue
        record = read(value)
        if isinstance(record, Refusal):
            raise ReadError(record)
        new = record.fields
        if record.schema.subject in ("transcript", "overview"):
            epochs[new["session"]] = max(new["epoch"], epochs.get(new["session"], 0))
        if record.schema.subject == "transcript":
            key = new["session"], new["key"]
            old = rows.get(key)
            if old is None or (old["epoch"], old["rev"]) <= (new["epoch"], new["rev"]):
                rows[key] = new
    found: dict[str, list[dict[str, Any]]] = {session: [] for session in sorted(epochs)}
    for (session, _), row in rows.items():
        if not row["deleted"] and row["epoch"] == epochs[session]:
            found[session].append(row)
    for session_rows in found.values():
        session_rows.sort(key=lambda row: (row["anchor_seq"], row["anchor_rank"], row["key"]))
    return found
