"""Connections break, tabs freeze, gateways go: the page says so, and ends equal to the server."""

from __future__ import annotations

import pytest

from tests.browser.scene import Scene
from tests.browser.tab import Tab
from tests.browser.test_session_page import a_turn, rows
from tests.operators.records import delta, say, step_start, turn_start, user

pytestmark = pytest.mark.browser


def same_as_reloaded(tab: Tab, last: str) -> None:
    shown = rows(tab)
    tab.page.reload()
    tab.see(f".row[data-key='{last}']")
    tab.see(".live-mark:not(.stale)")
    # How many rows above those seen are mounted is no promise: the same from the newest up.
    again = rows(tab)
    both = min(len(again), len(shown))
    assert both > 0
    assert again[-both:] == shown[-both:]


def test_corpus_15_26_a_gateway_that_goes_and_comes_again_mid_stream(
    scene: Scene, tab: Tab
) -> None:
    scene.tell("s-1", *a_turn(), turn_start(2), user("more", "m-2"), step_start(1, turn=2))
    with scene.serving():
        tab.open(scene.of("s-1"))
        tab.see(".session-head .live-mark:not(.stale)")
        scene.tell("s-1", delta("Half of ", turn=2))
        tab.see(".row.assistant .flag.live")
    tab.see(".session-head .live-mark.stale")
    assert "stale since" in tab.page.locator(".session-head .live-mark").inner_text()
    assert "Half of" in tab.page.locator("main").inner_text()  # what was read stays
    scene.tell("s-1", delta("a sentence.", turn=2), say("Half of a sentence.", turn=2))
    scene.tell("s-1", user("thanks", "m-3"))
    with scene.serving():
        tab.see(".row[data-key='user:17']")
        tab.see(".session-head .live-mark:not(.stale)")
        assert tab.page.locator(".row.user").count() == 3
        same_as_reloaded(tab, "user:17")


def test_corpus_46_a_tab_that_was_frozen(scene: Scene, tab: Tab) -> None:
    scene.tell("s-1", *a_turn())
    with scene.serving():
        tab.open(scene.of("s-1"))
        tab.see(".session-head .live-mark:not(.stale)")
        devtools = tab.page.context.new_cdp_session(tab.page)
        devtools.send("Page.setWebLifecycleState", {"state": "frozen"})
        for number in range(30):
            scene.tell("s-1", user(f"while frozen {number}", f"f-{number}"))
        devtools.send("Page.setWebLifecycleState", {"state": "active"})
        tab.see(".row[data-key='user:40']")
        same_as_reloaded(tab, "user:40")


def test_corpus_17_a_log_that_was_begun_anew(scene: Scene, tab: Tab) -> None:
    scene.tell("s-1", *a_turn())
    with scene.serving():
        tab.open(scene.of("s-1"))
        tab.see(".session-head .live-mark:not(.stale)")
        lines = b'{"type":"session","version":4,"id":"s-1","timestamp":1}'
        event = (
            b'{"seq":0,"time":1,"type":"user/message","surfaceOp":"append","data":{"id":"n",'
            b'"role":"user","content":[{"type":"text","text":"anew"}],"source":{"kind":"user"}}}'
        )
        scene.feed([("s-1", lines), ("s-1", event)], epoch=1)
        scene.run(batch=500)
        tab.see(".row[data-key='user:0']")
        tab.see(".row", 1)


def test_a_session_that_there_is_not(scene: Scene, tab: Tab) -> None:
    with scene.serving():
        tab.open(scene.of("nobody"))
        tab.see(".waiting")
        tab.page.get_by_text("There is no such session").wait_for()
        tab.page.keyboard.press("Escape")
        tab.see(".dashboard")


def test_a_session_that_there_is_not_yet(scene: Scene, tab: Tab) -> None:
    """A link may be followed before the first event has come through."""
    with scene.serving():
        tab.open(scene.of("s-1"))
        tab.page.get_by_text("There is no such session").wait_for()
        scene.tell("s-1", user("begun", "b"))
        tab.see(".row[data-key='user:0']")
        tab.see(".session-head .live-mark:not(.stale)")
