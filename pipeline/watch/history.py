"""A window of older rows: pages on both sides of a seq that was jumped to."""

from __future__ import annotations

from pipeline.gateway.keyed import Json, KeyedSession, anchor


class History:
    """Rows anchored at ``first`` ≤ seq < ``before`` (None: to the end), of one epoch."""

    def __init__(self, page: Json) -> None:
        self.epoch: int = page["epoch"]
        self.first: int = page["first"]
        self.before: int | None = page["before"]
        self.has_more: bool = page["has_more"]
        self._rows: dict[str, Json] = {}
        self._take(page)

    def older(self, page: Json) -> None:
        if page["epoch"] == self.epoch:
            self.first, self.has_more = page["first"], page["has_more"]
            self._take(page)

    def newer(self, page: Json) -> None:
        if page["epoch"] == self.epoch:
            self.before = page["before"]
            self._take(page)

    def _take(self, page: Json) -> None:
        for row in page["rows"]:
            self._rows[row["key"]] = row

    def rows(self, held: KeyedSession) -> tuple[Json, ...]:
        """In order; where the stream told a newer version, that one, and what it told beside."""
        found = {key: _newer(row, held.row(key)) for key, row in self._rows.items()}
        for row in held.rows:
            if self.first <= row["anchor_seq"] < (self.before or row["anchor_seq"] + 1):
                found.setdefault(row["key"], row)
        return tuple(sorted((row for row in found.values() if not row["deleted"]), key=anchor))


def _newer(row: Json, told: Json | None) -> Json:
    return row if told is None or told["rev"] < row["rev"] else told
