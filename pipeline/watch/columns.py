"""The table of sessions: what stands in its columns, and how wide they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from rich.text import Text
from textual.events import Resize
from textual.widgets import DataTable

from pipeline.plain import visible_line

from . import figures
from .figures import Overview

Cell: TypeAlias = Text
PADDING = 2  #: blanks beside each cell
LEAST_TITLE = 24  #: columns; less, and a column that can be missed gives way


class Column(Struct, frozen=True):
    """``width`` None: what is left. ``needed``: shown however narrow the terminal is."""

    name: str
    width: int | None
    cell: Callable[[Overview, int], Text]
    needed: bool = True


def _number(value: int) -> Text:
    return Text(str(value), "" if value else "dim", justify="right")


def _right(text: str) -> Text:
    return Text(text, justify="right")


def _model(overview: Overview) -> Text:
    told = visible_line(str(overview["model"] or "-")[:100])
    return Text(told, no_wrap=True, overflow="ellipsis")


COLUMNS = (
    Column("State", 11, figures.state),
    Column("Session", None, lambda overview, _: figures.title(overview)),
    Column("Model", 18, lambda overview, _: _model(overview), needed=False),
    Column("Age", 6, lambda overview, now: _right(figures.age(overview["last_time"], now))),
    Column("Context", 7, lambda overview, _: _right(figures.context(overview)), needed=False),
    Column("Tokens", 11, lambda overview, _: _right(figures.tokens(overview)), needed=False),
    Column("Errors", 6, lambda overview, _: _number(figures.errors(overview))),
    Column("Compacted", 9, lambda overview, _: _number(figures.compactions(overview))),
)


class Columns(DataTable[Text]):
    """One row per session; a cell is written only when it differs."""

    def __init__(self) -> None:
        super().__init__(cursor_type="row", zebra_stripes=True)
        self._columns: list[Column] = []
        self._shown: dict[str, list[Text]] = {}
        self._overviews: Sequence[Overview] = ()
        self._now = 0

    def on_resize(self, event: Resize) -> None:
        """Other widths are another table."""
        chosen = list(COLUMNS)
        while _left(chosen, event.size.width) < LEAST_TITLE:
            spare = next((each for each in reversed(chosen) if not each.needed), None)
            if spare is None:
                break
            chosen.remove(spare)
        at = self.cursor_row
        self.clear(columns=True)
        self._columns, self._shown = chosen, {}
        rest = max(_left(chosen, event.size.width), 8)
        for column in chosen:
            self.add_column(column.name, width=column.width or rest, key=column.name)
        self.show(self._overviews, self._now)
        self.move_cursor(row=at)

    def show(self, overviews: Sequence[Overview], now_ms: int) -> None:
        """In this order; the cursor stays on its session."""
        self._overviews, self._now = overviews, now_ms
        if not self._columns:
            return  # before the first layout
        cells = {
            str(each["session"]): [column.cell(each, now_ms) for column in self._columns]
            for each in overviews
        }
        if list(cells) != list(self._shown):
            self._anew(cells)
        else:
            for session, row in cells.items():
                for column, new, old in zip(self._columns, row, self._shown[session], strict=True):
                    if new != old:
                        self.update_cell(session, column.name, new)
        self._shown = cells

    def _anew(self, cells: dict[str, list[Text]]) -> None:
        before = list(self._shown)
        chosen = before[self.cursor_row] if self.cursor_row < len(before) else None
        self.clear()
        for session, row in cells.items():
            self.add_row(*row, key=session)
        if chosen in cells:
            self.move_cursor(row=list(cells).index(chosen), animate=False)


def _left(chosen: Sequence[Column], width: int) -> int:
    taken = sum((column.width or 0) + PADDING for column in chosen)
    return width - taken - 2  # of the scrollbar
