"""Debian's Chromium, driven by Playwright.

Where there is none the tests are skipped with the reason; under CI=true they fail. Screenshots go
to the folder that FOLDSTREAM_SCREENSHOTS names, if any."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.scene import Scene
from tests.browser.tab import Tab

ARGUMENTS = (
    "--no-sandbox",  # containers have no user namespaces to build one from
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


#: Debian's, then what other systems call the same browser.
NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    found = (shutil.which(name) for name in NAMES)
    return os.environ.get("FOLDSTREAM_CHROMIUM") or next(filter(None, found), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Per module: while it is there its event loop counts as running, which other tests mind."""
    named = chromium()
    if named is None:
        why = "no Chromium: apt-get install chromium, or name one in FOLDSTREAM_CHROMIUM"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=named, headless=True, args=list(ARGUMENTS), timeout=120_000
        )
        try:
            yield launched
        finally:
            launched.close()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        made = Tab(context)
        yield made
        assert made.wrong == []
