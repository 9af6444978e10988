"""The line that says what is shown, and how fresh it is."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text
from textual.widgets import Static

from pipeline.gateway.client import Lost
from pipeline.gateway.keyed import Json
from pipeline.plain import visible_line

from .figures import clock


def freshness(lost: Lost | None, status: Json | None) -> Text:
    """``lost``: of the stream; ``status``: as the gateway last said how it stands itself."""
    if lost is not None:
        why = visible_line(lost.why)
        return Text(f"stale since {clock(lost.since)}: {why}", "bold yellow", overflow="ellipsis")
    state = None if status is None else status["state"]
    if status is not None and state in ("starting", "catching-up"):
        return Text(f"reading history, {status['done']} of {status['total']}", "yellow")
    if status is not None and state == "stale":
        since = clock((status["stale_since"] or 0) / 1000)
        why = visible_line(status["why"] or "not live")
        return Text(f"stale since {since}: {why}", "bold yellow", overflow="ellipsis")
    return Text("live", "green")


class Bar(Static):
    """Two texts: what, on the left; how fresh, on the right."""

    DEFAULT_CSS = "Bar { height: 1; background: $panel; padding: 0 1; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id, markup=False)
        self._told: tuple[Text, Text] | None = None

    def tell(self, left: Text, right: Text) -> None:
        """Drawn only if it changed."""
        if self._told == (left, right):
            return
        self._told = left, right
        grid = Table.grid(expand=True)
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        grid.add_column(justify="right", no_wrap=True, overflow="ellipsis", max_width=60)
        grid.add_row(left, right)
        self.update(grid)

    @property
    def text(self) -> str:
        """What stands there."""
        return "" if self._told is None else "  ".join(part.plain for part in self._told)
