"""A transcript on the screen: rows of any height, drawn line by line as they are scrolled to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from pipeline.gateway.keyed import Json

from .rows import drawn

GUTTER = 2  #: columns, in which the chosen row is marked
NEAR = 5  #: lines from an end at which more is asked for


class _Drawn(Struct, frozen=True):
    """``row`` and the rest: what ``lines`` were drawn of."""

    row: Json
    width: int
    whole: bool
    lines: list[Strip]


class TranscriptView(ScrollView, can_focus=True):
    """Stays where the reader is, whatever comes above or below; at the end it follows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "choose(1)", "Next row", show=False),
        Binding("k,up", "choose(-1)", "Previous row", show=False),
        Binding("g,home", "first", "Oldest that is held", show=False),
    ]
    DEFAULT_CSS = "TranscriptView { height: 1fr; overflow-x: hidden; }"

    class AtTop(Message):
        """Older rows may be wanted."""

    class AtEnd(Message):
        """Newer rows may be wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen: str | None = None  # a row's key
        self.following = True
        self._rows: Sequence[Json] = ()
        self._drawn: dict[str, _Drawn] = {}
        self._blocks: list[_Drawn] = []
        self._tops: list[int] = [0]  # where each block begins, and the end
        self._whole: set[str] = set()
        self._fits = Size(0, 0)  # what it was drawn for

    # --- rows

    def show(self, rows: Sequence[Json]) -> None:
        """These, in this order; only those that are other objects than before are drawn."""
        self._rows = rows
        width = self.size.width - GUTTER
        if width < 1:
            return  # before the first layout
        key, within = self._at_the_top()
        follow = self.following
        blocks = [self._draw(row, width) for row in rows]
        self._drawn = {block.row["key"]: block for block in blocks}
        self._blocks = blocks
        self._tops = [0, *accumulate(len(block.lines) for block in blocks)]
        self._fits = self.size
        self.virtual_size = Size(self.size.width, self._tops[-1])
        if follow:
            self.chosen = blocks[-1].row["key"] if blocks else None
            self._go(self._tops[-1])
        elif (at := self._index(key)) is not None:
            self._go(self._tops[at] + min(within, len(blocks[at].lines) - 1))
        self.following = follow
        self.refresh()

    def _draw(self, row: Json, width: int) -> _Drawn:
        whole = row["key"] in self._whole
        held = self._drawn.get(row["key"])
        if held is not None and held.row is row and (held.width, held.whole) == (width, whole):
            return held
        console = self.app.console
        options = console.options.update(width=width, height=None)
        lines = console.render_lines(drawn(row, whole=whole), options, pad=False)
        return _Drawn(row, width, whole, [Strip(line) for line in lines])

    def _at_the_top(self) -> tuple[str | None, int]:
        """The row that is cut by the upper edge, and how many of its lines are above it."""
        if not self._blocks:
            return None, 0
        y = self.scroll_offset.y
        at = self._block_at(y)
        return self._blocks[at].row["key"], y - self._tops[at]

    def _block_at(self, y: int) -> int:
        return min(max(bisect_right(self._tops, y) - 1, 0), len(self._blocks) - 1)

    def _index(self, key: str | None) -> int | None:
        found = (at for at, block in enumerate(self._blocks) if block.row["key"] == key)
        return next(found, None)

    @property
    def row(self) -> Json | None:
        """The chosen one."""
        at = self._index(self.chosen)
        return None if at is None else self._blocks[at].row

    @property
    def below(self) -> int:
        """Rows that begin under the lower edge."""
        edge = self.scroll_offset.y + self.size.height
        return sum(1 for top in self._tops[:-1] if top >= edge)

    # --- lines

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        y += self.scroll_offset.y
        if y >= self._tops[-1]:
            return Strip.blank(width, base)
        at = self._block_at(y)
        block = self._blocks[at]
        chosen = block.row["key"] == self.chosen
        gutter = Segment("▌ " if chosen else "  ", Style(color="cyan") if chosen else None)
        line = Strip([gutter, *block.lines[y - self._tops[at]]])
        return line.adjust_cell_length(width, base).apply_style(base)

    def on_resize(self, _: Resize) -> None:
        self.show(self._rows)

    # --- where the reader is

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) == round(new_value) or self.size != self._fits:
            return  # of another size now: nobody scrolled
        self.following = new_value >= self.max_scroll_y
        if new_value <= NEAR:
            self.post_message(self.AtTop())
        if new_value >= self.max_scroll_y - NEAR:
            self.post_message(self.AtEnd())

    def _go(self, y: int) -> None:
        self.scroll_to(y=min(y, self.max_scroll_y), animate=False, force=True)

    def go_to(self, key: str) -> bool:
        """Choose a row and bring it to the top; False: it is not among them."""
        at = self._index(key)
        if at is None:
            return False
        self.chosen, self.following = key, False
        self._go(self._tops[at])
        self.refresh()
        return True

    def follow(self) -> None:
        """To the end, and stay there."""
        self.following = True
        self.show(self._rows)

    def toggle(self) -> None:
        """All of the chosen row, or only its beginning."""
        if self.chosen is not None:
            self._whole ^= {self.chosen}
            self.following = False
            self.show(self._rows)

    def is_whole(self, key: str) -> bool:
        return key in self._whole

    def action_choose(self, by: int) -> None:
        if not self._blocks:
            return
        at = self._index(self.chosen)
        at = self._block_at(self.scroll_offset.y) if at is None else at + by
        if at < 0:
            self.post_message(self.AtTop())
        if at >= len(self._blocks):
            self.follow()
            self.post_message(self.AtEnd())
            return
        at = max(at, 0)
        self.chosen, self.following = self._blocks[at].row["key"], False
        top, end = self._tops[at], self._tops[at + 1]
        y = self.scroll_offset.y
        if top < y or end - top >= self.size.height:
            self._go(top)
        elif end > y + self.size.height:
            self._go(end - self.size.height)
        self.refresh()

    def action_first(self) -> None:
        if self._blocks:
            self.go_to(self._blocks[0].row["key"])
            self.post_message(self.AtTop())
