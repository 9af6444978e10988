"""Cold states of a fold that only a proof needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.ports import Segment

from .scratch import Scratch, full


class ScratchStates:
    """Cold states of the fold (`ports.StateStore`), as far as one proof needs one."""

    def __init__(self, scratch: Scratch) -> None:
        self._db = scratch.db

    def open(self, partition: int) -> int | None:  # noqa: ARG002 - nothing is ever kept
        return None

    def write(
        self,
        partition: int,
        items: Iterable[Segment],
        position: int,  # noqa: ARG002 - a proof begins anew each time
        *,
        current: bool = True,  # noqa: ARG002 - as above
    ) -> None:
        with full():
            self._db.executemany(
                "REPLACE INTO segments VALUES (?, ?, ?, ?)",
                ((partition, *item) for item in items),
            )

    def segments(self, partition: int, session: str) -> Mapping[str, bytes] | None:
        rows = self._db.execute(
            "SELECT segment, value FROM segments "
            "WHERE partition = ? AND session = ? AND value IS NOT NULL",
            (partition, session),
        )
        return dict(rows) or None

    def sessions(self, partition: int) -> int:
        counted: int = self._db.execute(
            "SELECT count(DISTINCT session) FROM segments WHERE partition = ?", (partition,)
        ).fetchone()[0]
        return counted

    def release(self, partition: int) -> None:
        self.wipe(partition)

    def wipe(self, partition: int) -> None:
        self._db.execute("DELETE FROM segments WHERE partition = ?", (partition,))

    def close(self) -> None:
        """The scratch file is its owner's."""
