"""Bytes to values and back: log shapes, files, Avro, snapshots. No broker, no thread."""
