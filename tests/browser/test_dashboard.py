"""All sessions at a glance: what is listed, filtered, sorted, and told as it happens."""

from __future__ import annotations

import json

import pytest

from tests.browser.scene import Scene
from tests.browser.tab import Tab
from tests.operators.build import numbered
from tests.operators.records import (
    call,
    result,
    say,
    step_start,
    turn_end,
    turn_start,
    user,
)

pytestmark = pytest.mark.browser


def fill(scene: Scene) -> None:
    scene.tell("one", turn_start(), user("a"), say("b"), turn_end())
    scene.tell("two", turn_start(), user("c"), step_start(), say(calls=("a",)), call("a"))
    scene.tell("two", result("a", "no such file", failed=True))
    scene.tell("three", turn_start(), user("d"), turn_end(reason="error"))


def test_states_errors_and_links(scene: Scene, tab: Tab) -> None:
    fill(scene)
    with scene.serving():
        page = tab.open(scene.url)
        tab.see("tr[data-session]", 3)
        told = page.evaluate(
            "() => Object.fromEntries([...document.querySelectorAll('tr[data-session]')].map((row)"
            " => [row.dataset.session, [row.querySelector('.state').textContent,"
            " row.querySelector('[data-label=Errors]').textContent]]))"
        )
        assert told == {"one": ["idle", "0"], "two": ["running", "1"], "three": ["failed", "1"]}
        tab.shot("dashboard")
        page.locator(".chip.failed").click()
        tab.see("tr[data-session]", 1)
        assert "state=failed" in page.url
        page.reload()  # the address says it all
        tab.see("tr[data-session]", 1)
        page.locator("tr[data-session=three] a").click()
        tab.see(".row.turn-error")


def test_a_turn_left_open_long_ago_is_stalled_not_running(scene: Scene, tab: Tab) -> None:
    old = [{**made, "time": 1_000} for made in numbered([turn_start(), user("a")], 0)]
    header = {"type": "session", "version": 4, "id": "old", "timestamp": 1_000}
    scene.feed(("old", json.dumps(line).encode()) for line in (header, *old))
    fill(scene)
    with scene.serving():
        page = tab.open(scene.url)
        tab.see("tr[data-session]", 4)
        assert page.locator("tr[data-session=old] .state").inner_text() == "stalled"
        assert page.locator(".chip.running").inner_text().split() == [
            "running",
            "2",
            "1",
            "stalled",
        ]


def test_a_search_finds_and_says_when_it_does_not(scene: Scene, tab: Tab) -> None:
    fill(scene)
    with scene.serving():
        page = tab.open(scene.url)
        tab.see("tr[data-session]", 3)
        page.keyboard.press("/")
        page.keyboard.type("THREE")
        tab.see("tr[data-session]", 1)
        page.locator("[data-search]").fill("nothing of the kind")
        tab.see(".empty")
        assert "No session fits" in page.locator(".empty").inner_text()


def test_what_happens_is_told_and_a_new_session_appears(scene: Scene, tab: Tab) -> None:
    fill(scene)
    with scene.serving():
        page = tab.open(scene.url)
        tab.see("tr[data-session]", 3)
        tab.see(".live-mark:not(.stale)")
        page.evaluate("() => { window.kept = document.querySelector('tr[data-session=one]'); }")
        scene.tell("two", turn_end())
        tab.see("tr[data-session=two] .state.idle")
        scene.tell("four", turn_start(), user("e"))
        tab.see("tr[data-session=four]")
        same = "() => window.kept === document.querySelector('tr[data-session=one]')"
        assert page.evaluate(same)


def test_unread_rows_are_counted_until_the_session_is_read(scene: Scene, tab: Tab) -> None:
    fill(scene)
    with scene.serving():
        page = tab.open(scene.of("one"))
        tab.see(".row.assistant")
        page.goto(scene.url)
        tab.see("tr[data-session]", 3)
        scene.tell("one", turn_start(2), user("more", "m-2"), say("yes", turn=2))
        tab.see("tr[data-session=one] .unread")
        assert page.locator("tr[data-session=one] .unread").inner_text().startswith("2")
        page.reload()  # it is not forgotten
        tab.see("tr[data-session=one] .unread")
        page.goto(scene.of("one"))
        tab.see(".row.assistant >> nth=1")
        page.goto(scene.url)
        tab.see("tr[data-session=one]")
        tab.see("tr[data-session=one] .unread", 0)


def test_there_is_nothing_yet(scene: Scene, tab: Tab) -> None:
    with scene.serving():
        tab.open(scene.url)
        tab.see(".empty")
        assert "foldstream ingest" in tab.page.locator(".empty").inner_text()
        scene.tell("one", turn_start(), user("a"))
        tab.see("tr[data-session=one]")
