"""One session: its transcript in log order, live, and older parts of it that were jumped to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, Input

from pipeline.gateway.client import Client, ClientError, page_path, row_path
from pipeline.gateway.keyed import Json
from pipeline.plain import visible_line

from . import figures
from .away import AWAY, why
from .bar import Bar, freshness
from .finding import Finding
from .history import History
from .rows import elsewhere
from .transcript import TranscriptView

if TYPE_CHECKING:
    from .app import Watch

PAINT_S = 0.05  #: between two paintings of what the stream told
LOOK_S = 0.5  #: between two looks at the clock
PAGE = 50  #: messages


class SessionScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("enter", "whole", "Whole row"),
        Binding("slash", "ask('search')", "Search", key_display="/"),
        Binding("n", "hit(1)", "Next", show=False),
        Binding("N", "hit(-1)", "Previous", show=False),
        Binding("colon", "ask('jump')", "Go to seq", key_display=":"),
        Binding("G,end", "end", "Follow", key_display="G"),
        Binding("a", "auxiliary", "Auxiliary"),
    ]
    DEFAULT_CSS = """
    SessionScreen #asked { display: none; height: 3; }
    SessionScreen #asked.open { display: block; }
    """

    def __init__(self, session: str, client: Client) -> None:
        super().__init__()
        self.session = session
        self._client = client
        self._held = client.store.session(session)
        self._history: History | None = None
        self._loading = False
        self._painting = False
        self._auxiliary = False
        self._asks = "search"
        self._finding: Finding | None = None
        self._wholes: dict[str, Json] = {}  # rows with their large bodies
        self._note = ""

    @property
    def _watch(self) -> Watch:
        return cast("Watch", self.app)

    def compose(self) -> ComposeResult:
        yield Bar(id="title")
        yield Bar(id="facts")
        yield TranscriptView()
        yield Input(id="asked")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(TranscriptView).focus()
        self.set_interval(LOOK_S, self._bars)
        self.run_worker(self._follow(), group="stream")

    async def on_unmount(self) -> None:
        await self._client.close()

    # --- what the gateway says

    async def _follow(self) -> None:
        try:
            async for _ in self._client:
                if not self._painting:
                    self._painting = True
                    self.set_timer(PAINT_S, self._paint)
        except ClientError as error:
            self._note = why(error)
        self._bars()

    @on(TranscriptView.AtTop)
    def _want_older(self) -> None:
        more = self._held.has_more if self._history is None else self._history.has_more
        if more and not self._loading:
            self._loading = True
            self.run_worker(self._older(), group="pages")

    async def _older(self) -> None:
        try:
            if (history := self._history) is None:
                await self._client.older(self.session, PAGE)
            elif (page := await self._page(before=history.first)) is not None:
                history.older(page)
        except AWAY as error:
            self._note = why(error)
        self._loading = False
        self._paint()

    @on(TranscriptView.AtEnd)
    def _want_newer(self) -> None:
        if self._history is not None and self._history.before is not None and not self._loading:
            self._loading = True
            self.run_worker(self._newer(self._history, self._history.before), group="pages")

    async def _newer(self, history: History, before: int) -> None:
        try:
            page = await self._page(after=before - 1)
            if page is not None:
                history.newer(page)
        except AWAY as error:
            self._note = why(error)
        self._loading = False
        self._paint()

    async def _page(self, **query: Any) -> Json | None:
        found: Json | None = await self._client.get(
            page_path(self.session), max_messages=PAGE, **query
        )
        return found

    # --- what is shown

    def _rows(self) -> list[Json]:
        history = self._history
        if history is not None and history.epoch != self._held.epoch:
            history = self._history = None  # its log began anew
        rows = self._held.rows if history is None else history.rows(self._held)
        return [
            self._whole(row) for row in rows if self._auxiliary or row["visibility"] == "transcript"
        ]

    def _whole(self, row: Json) -> Json:
        held = self._wholes.get(row["key"])
        return row if held is None or held["rev"] < row["rev"] else held

    def _paint(self) -> None:
        self._painting = False
        view = self.query_one(TranscriptView)
        history = self._history
        if history is not None and history.before is not None:
            view.following = False  # its end is not the session's
        view.show(self._rows())
        self._bars()

    def _bars(self) -> None:
        overview, now = self._held.overview, self._watch.now_ms()
        name = Text(visible_line(self.session), "bold")
        titled = overview is not None and overview["title"]
        title = figures.title(overview) + Text("  ") + name if overview and titled else name
        right = freshness(self._client.lost, self._watch.status)
        self.query_one("#title", Bar).tell(title, right)
        facts = Text("") if overview is None else figures.summary(overview, now)
        self.query_one("#facts", Bar).tell(facts, Text(self._note or self._where()))

    def _where(self) -> str:
        view = self.query_one(TranscriptView)
        row = view.row
        at = "" if row is None else f"#{row['anchor_seq']}"
        if self._history is not None and self._history.before is not None:
            return f"{at} · history: G goes to the end"
        if view.following:
            return f"{at} · following"
        below = view.below
        return f"{at} · {below} below: G follows" if below else at

    # --- keys

    def action_back(self) -> None:
        asked = self.query_one("#asked", Input)
        if asked.has_class("open"):
            self._close_input()
        elif len(self.app.screen_stack) > 1:
            self.app.pop_screen()

    def action_auxiliary(self) -> None:
        self._auxiliary = not self._auxiliary
        self._paint()

    def action_end(self) -> None:
        self._history, self._note = None, ""
        view = self.query_one(TranscriptView)
        view.following = True
        self._paint()

    def action_whole(self) -> None:
        view = self.query_one(TranscriptView)
        row = view.row
        if row is not None and elsewhere(row["data"]) and not view.is_whole(row["key"]):
            self.run_worker(self._fetch(row["key"]), group="whole")
        view.toggle()
        self._bars()

    async def _fetch(self, key: str) -> None:
        try:
            row = await self._client.get(row_path(self.session, key))
        except AWAY as error:
            self._note = why(error)
            return
        if row is not None:
            self._wholes[key] = row
        self._paint()

    def action_ask(self, what: str) -> None:
        self._asks = what
        asked = self.query_one("#asked", Input)
        asked.placeholder = "words to find" if what == "search" else "seq to go to"
        asked.value = ""
        asked.add_class("open")
        asked.focus()

    def _close_input(self) -> None:
        self.query_one("#asked", Input).remove_class("open")
        self.query_one(TranscriptView).focus()

    @on(Input.Submitted, "#asked")
    def _answered(self, event: Input.Submitted) -> None:
        self._close_input()
        text = event.value.strip().removeprefix("#")
        self._note = ""
        if self._asks == "jump":
            if text.isdecimal():
                self._jump(int(text))
            else:
                self._note = "a seq is a number"
        elif text:
            self._finding = Finding(self._client, self.session, text)
            self.run_worker(self._search(self._finding), group="search", exclusive=True)
        self._bars()

    # --- to a place

    async def _search(self, finding: Finding) -> None:
        try:
            await finding.ask()
        except AWAY as error:
            self._note = why(error)
            self._bars()
            return
        row = self.query_one(TranscriptView).row
        hit = finding.nearest(None if row is None else row["anchor_seq"])
        self._found(finding, hit)

    def action_hit(self, by: int) -> None:
        if self._finding is not None:
            self._found(self._finding, self._finding.step(by))

    def _found(self, finding: Finding, hit: tuple[int, str] | None) -> None:
        self._note = finding.said
        if hit is not None:
            self._jump(*hit)
        self._bars()

    def _jump(self, seq: int, key: str | None = None) -> None:
        if not self._go(seq, key):
            self.run_worker(self._jump_far(seq, key), group="jump", exclusive=True)

    def _go(self, seq: int, key: str | None) -> bool:
        """To the row, or to that in which the seq falls; False: it is not held."""
        rows = self._rows()
        history = self._history
        more = self._held.has_more if history is None else history.has_more
        ends = history is None or history.before is None or seq < history.before
        if not rows or not ends or (more and seq < rows[0]["anchor_seq"]):
            return False
        upto = [row for row in rows if row["anchor_seq"] <= seq]
        target = (upto or rows)[-1 if upto else 0]["key"]
        view = self.query_one(TranscriptView)
        self._paint()
        return (key is not None and view.go_to(key)) or view.go_to(target)

    async def _jump_far(self, seq: int, key: str | None) -> None:
        try:
            page = await self._page(around=seq)
        except AWAY as error:
            self._note = why(error)
            self._bars()
            return
        if page is not None and page["epoch"] == self._held.epoch:
            self._history = History(page)
            self.query_one(TranscriptView).following = False
            self._go(seq, key)
        self._bars()
