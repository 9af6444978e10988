"""One page of the browser, and what a test asks of it."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import BrowserContext, ConsoleMessage, Page

PATIENCE_MS = 60_000  #: until a thing is there; machines that run tests are slow and busy


class Tab:
    """A page of the browser, and what went wrong on it: nothing may, in any test."""

    def __init__(self, context: BrowserContext) -> None:
        context.set_default_timeout(PATIENCE_MS)
        self.page: Page = context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._said)

    def _said(self, message: ConsoleMessage) -> None:
        lost = "Failed to load resource" in message.text  # a server that is away, on purpose
        if message.type == "error" and not lost:
            self.wrong.append(message.text)

    def open(self, url: str) -> Page:
        self.page.goto(url)
        return self.page

    def see(self, selector: str, count: int | None = None) -> None:
        """Wait until it is there, so many times if told."""
        if count is None:
            self.page.locator(selector).first.wait_for(state="visible")
        else:
            self.page.wait_for_function(
                "([what, count]) => document.querySelectorAll(what).length === count",
                arg=[selector, count],
            )

    def shot(self, name: str) -> None:
        folder = os.environ.get("FOLDSTREAM_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=Path(folder) / f"{name}.png")
