"""The terminal program: its screens, its connections, and what all of them share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from pipeline.gateway.client import Client
from pipeline.gateway.keyed import Json

from .away import AWAY
from .dashboard import Dashboard
from .session import SessionScreen

STATUS_S = 5.0  #: between two questions how the gateway stands

Connect = Callable[[Sequence[str], str], Client]


class Watch(App[int]):
    """``connect`` makes a client for sessions and a view; ``session``: the one to begin with."""

    TITLE = "foldstream"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
        Binding("question_mark", "help", "Keys", key_display="?"),
    ]

    def __init__(
        self,
        connect: Connect,
        session: str | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        super().__init__()
        self.connect = connect
        self.now_ms = now_ms
        self.status: Json | None = None  # of the gateway, as it last said
        self._first = session
        self._asking = connect((), "overview")

    def on_mount(self) -> None:
        self.push_screen(Dashboard(self.connect((), "overview")))
        if self._first is not None:
            self.watch_session(self._first)
        self.set_interval(STATUS_S, self._ask_status)
        self._ask_status()

    async def on_unmount(self) -> None:
        await self._asking.close()

    def watch_session(self, session: str) -> None:
        self.push_screen(SessionScreen(session, self.connect((session,), "transcript")))

    def action_help(self) -> None:
        """The keys, beside what is shown; again to be rid of them."""
        shown = self.screen.query("HelpPanel")
        if shown:
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def _ask_status(self) -> None:
        self.run_worker(self._read_status(), group="status", exclusive=True)

    async def _read_status(self) -> None:
        try:
            self.status = await self._asking.get("/v1/status")
        except AWAY:
            return  # the stream's loss says so already
