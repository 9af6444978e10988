"""All sessions: listed, filtered, searched and sorted by the gateway, kept up to date by its stream
of overviews."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input

from pipeline.gateway.client import Client, ClientError
from pipeline.gateway.keyed import Json

from .away import AWAY, why
from .bar import Bar, freshness
from .columns import Columns
from .figures import STATES

if TYPE_CHECKING:
    from .app import Watch

PAGE = 100
PAINT_S = 0.5  #: between two looks at what overviews told, and at the clock
AGAIN_S = 4.0  #: between two readings of the list because sessions came
SORTS = ("activity", "created", "title", "tokens", "errors", "compactions")
FILTERS: tuple[tuple[str, ...], ...] = (
    (),
    ("running", "compacting"),
    *((each,) for each in STATES),
)


class Dashboard(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", show=True),
        Binding("slash", "search", "Search", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("o", "order", "Order"),
        Binding("t", "state", "State"),
        Binding("escape", "all", "All"),
        Binding("j", "move(1)", "Down", show=False),
        Binding("k", "move(-1)", "Up", show=False),
        Binding("g", "ends(0)", "First", show=False),
        Binding("G", "ends(-1)", "Last", show=False),
        Binding("f5", "load", "Read again", show=False),
    ]
    DEFAULT_CSS = """
    Dashboard DataTable { height: 1fr; }
    Dashboard #words { display: none; height: 3; }
    Dashboard #words.asked { display: block; }
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._listed: list[Json] = []
        self._next: str | None = None
        self._counts: dict[str, int] | None = None
        self._failed: str | None = None
        self._words, self._filter, self._sort, self._ascending = "", 0, 0, False
        self._waits = False  # for another reading of the list

    @property
    def _watch(self) -> Watch:
        return cast("Watch", self.app)

    def compose(self) -> ComposeResult:
        yield Bar()
        yield Input(placeholder="words of title, id, folder, model or origin", id="words")
        yield Columns()
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(Columns).focus()
        self.set_interval(PAINT_S, self._paint)
        self.run_worker(self._follow(), group="stream")
        self.action_load()

    async def on_unmount(self) -> None:
        await self._client.close()

    # --- what the gateway says

    def action_load(self) -> None:
        self._waits = False
        self.run_worker(self._load(None), group="list", exclusive=True)

    async def _load(self, after: str | None) -> None:
        query = {
            "q": self._words,
            "state": FILTERS[self._filter],
            "sort": SORTS[self._sort],
            "order": "asc" if self._ascending else "desc",
            "limit": PAGE if after else min(500, max(PAGE, len(self._listed))),
        }
        try:
            page = await self._client.get(
                "/v1/sessions", **query | ({"after": after} if after else {})
            )
        except AWAY as error:
            self._failed = why(error)
            page = None
        if page is None:
            self._later()
            return
        self._failed = None
        self._listed = [*self._listed, *page["sessions"]] if after else page["sessions"]
        self._next, self._counts = page["next"], page["counts"]
        self._paint()

    async def _follow(self) -> None:
        try:
            async for session in self._client:
                if not session or all(each["session"] != session for each in self._listed):
                    self._later()
        except ClientError as error:
            self._failed = why(error)

    def _later(self) -> None:
        """Read the list again, but not at once: sessions come in crowds."""
        if not self._waits:
            self._waits = True
            self.set_timer(AGAIN_S, self.action_load)

    def _newest(self, listed: Json) -> Json:
        told = self._client.store.sessions.get(listed["session"])
        held = None if told is None else told.overview
        if held is None or (held["epoch"], held["seq"]) < (listed["epoch"], listed["seq"]):
            return listed
        return held

    # --- what is shown

    def _paint(self) -> None:
        now = self._watch.now_ms()
        self.query_one(Columns).show([self._newest(each) for each in self._listed], now)
        counts = self._counts or {}
        of = "+".join(FILTERS[self._filter]) or "all"
        arrow = "↑" if self._ascending else "↓"
        facts = [f"{sum(counts.values())} sessions" if self._counts is not None else "reading …"]
        facts += [f"{counts[name]} {name}" for name in STATES if counts.get(name)]
        left = Text("foldstream", "bold")
        left.append(f"  {' · '.join(facts)}   {SORTS[self._sort]} {arrow} · {of}")
        if self._words:
            left.append(f" · /{self._words}")
        if self._failed is not None:
            left = Text(self._failed, "bold red")
        elif self._counts is not None and not self._listed:
            left.append("   no session fits" if self._counts else "   none yet: foldstream ingest")
        self.query_one(Bar).tell(left, freshness(self._client.lost, self._watch.status))

    @on(DataTable.RowHighlighted)
    def _near_the_end(self, event: DataTable.RowHighlighted) -> None:
        if self._next is not None and event.cursor_row >= len(self._listed) - 5:
            after, self._next = self._next, None
            self.run_worker(self._load(after), group="list", exclusive=True)

    @on(DataTable.RowSelected)
    def _chosen(self, event: DataTable.RowSelected) -> None:
        if event.row_key.value is not None:
            self._watch.watch_session(event.row_key.value)

    # --- keys

    def action_open(self) -> None:
        self.query_one(Columns).action_select_cursor()

    def action_move(self, by: int) -> None:
        table = self.query_one(Columns)
        table.move_cursor(row=table.cursor_row + by)

    def action_ends(self, at: int) -> None:
        table = self.query_one(Columns)
        table.move_cursor(row=0 if at == 0 else table.row_count - 1)

    def action_sort(self) -> None:
        self._sort = (self._sort + 1) % len(SORTS)
        self.action_load()

    def action_order(self) -> None:
        self._ascending = not self._ascending
        self.action_load()

    def action_state(self) -> None:
        self._filter = (self._filter + 1) % len(FILTERS)
        self.action_load()

    def action_all(self) -> None:
        """Every session again."""
        words = self.query_one("#words", Input)
        words.value, self._words, self._filter = "", "", 0
        words.remove_class("asked")
        self.query_one(Columns).focus()
        self.action_load()

    def action_search(self) -> None:
        words = self.query_one("#words", Input)
        words.add_class("asked")
        words.focus()

    @on(Input.Changed, "#words")
    def _typed(self, event: Input.Changed) -> None:
        if event.value != self._words:
            self._words = event.value
            self.action_load()

    @on(Input.Submitted, "#words")
    def _asked(self) -> None:
        self.query_one("#words", Input).remove_class("asked")
        self.query_one(Columns).focus()
