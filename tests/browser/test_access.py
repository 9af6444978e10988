"""For everybody: keyboard alone, WCAG AA by axe, dark and light, small screens; hostile text."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser

from pipeline.simulate import simulate
from tests.browser.scene import Scene
from tests.browser.tab import Tab
from tests.browser.test_session_page import NODES, a_turn, compacted
from tests.browser.test_vendored import AXE
from tests.operators.records import Json, call, record, result, say, step_start, turn_start, user

pytestmark = pytest.mark.browser

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
HOSTILE = (
    "<img src=x onerror='window.hurt=1'><script>window.hurt=1</script>"
    "</div></article>{{7*7}}${7*7}\u202egnp.exe\u2066 \x1b[31mred\x1b[0m\x1b]0;t\x07"
    "[click](javascript:window.hurt=1) https://evil.example/x " + "w" * 5_000
)


def faults_of(tab: Tab) -> list[Any]:
    """What axe finds wrong."""
    # It is put in by the debugger: the page's own policy lets no script in.
    tab.page.evaluate(AXE.read_text("utf-8") + "; undefined")
    found = tab.page.evaluate("(rules) => axe.run(document, { runOnly: rules })", RULES)
    return [
        (each["id"], node["target"], node["failureSummary"])
        for each in found["violations"]
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_axe_finds_nothing(scene: Scene, browser: Browser, scheme: Any, width: int) -> None:
    scene.play([simulate(seed, events=150) for seed in (3, 4)])
    scene.tell("s-1", *a_turn(), *compacted(11, NODES), *hostile_turn())
    view = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=False
    )
    with scene.serving(), view as context:
        tab = Tab(context)
        tab.open(scene.url)
        tab.see("tr[data-session]", 3)
        assert faults_of(tab) == []
        tab.shot(f"dashboard-{scheme}-{width}")
        tab.page.goto(scene.of("s-1"))
        tab.see(".row.tool")
        tab.page.keyboard.press("m")
        tab.see(".pane.model .node")
        assert faults_of(tab) == []
        tab.shot(f"session-{scheme}-{width}")
        tab.page.keyboard.press("?")
        tab.see(".dialog")
        assert faults_of(tab) == []
        assert tab.wrong == []


def test_the_keyboard_is_enough(scene: Scene, tab: Tab) -> None:
    scene.tell("s-0", turn_start(), user("other"))
    scene.tell("s-1", *a_turn(), *compacted(11, NODES))
    with scene.serving():
        page = tab.open(scene.url)
        tab.see("tr[data-session]", 2)
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        tab.see("tr.selected")
        page.keyboard.press("Enter")
        tab.see(".row")
        page.goto(scene.of("s-1"))
        tab.see(".row .compaction")
        page.keyboard.press("g")
        tab.see(".row.user.selected")
        for key in ("assistant:3", "tool:4"):
            page.keyboard.press("j")
            tab.see(f".row[data-key='{key}'].selected:focus")
        page.keyboard.press("e")
        tab.see(".row.tool .output")
        page.keyboard.press("e")
        tab.see(".row.tool .output", 0)
        page.keyboard.press("v")
        tab.see(".pane.model .node", 2)  # the result is not there yet
        page.keyboard.press("m")
        tab.see(".pane.model[hidden]", 1)
        page.keyboard.press("/")
        page.keyboard.type("fixed")
        page.keyboard.press("Enter")
        tab.see(".hits li")
        page.keyboard.press("Escape")  # out of the field
        page.keyboard.press("Escape")
        tab.see(".hits", 0)
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        tab.see("tr[data-session]", 2)


def hostile_turn() -> list[Any]:
    return [
        turn_start(7),
        user(HOSTILE, "m-h"),
        step_start(1, turn=7),
        say(HOSTILE, {"type": HOSTILE[:90], "x": 1}, calls=("h",), turn=7),
        with_data(call("h", turn=7), name=HOSTILE, arguments=HOSTILE),
        with_data(result("h", HOSTILE, turn=7, failed=True), error={"name": HOSTILE, "code": "E"}),
        record(HOSTILE[:200], {"x": HOSTILE}),
    ]


def with_data(made: Json, **data: Any) -> Json:
    return {**made, "data": {**made["data"], **data}}


def test_hostile_text_is_text(scene: Scene, tab: Tab) -> None:
    scene.tell("s-1", *hostile_turn(), record("session/title", {"title": HOSTILE}))
    with scene.serving():
        page = tab.open(scene.of("s-1"))
        tab.see(".row.tool .inside")
        page.keyboard.press("m")
        tab.see(".pane.model .node")
        assert page.evaluate("() => window.hurt") is None
        assert page.locator("main img, main script, main iframe").count() == 0
        assert page.locator("main a[href^='http'], main a[href^='javascript']").count() == 0
        page.keyboard.press("g")
        tab.see(".row.user .text")
        told = page.locator(".row.user .text").evaluate("node => node.textContent")
        assert "<script>window.hurt=1</script>" in told
        assert "\u202e" not in page.content()
        assert "<U+202E>gnp.exe<U+2066>" in told
        assert "\x1b" not in told
        wide = "() => document.documentElement.scrollWidth <= window.innerWidth"
        assert page.evaluate(wide)
        across = (
            "() => [...document.querySelectorAll('.row .body')]"
            ".every((body) => body.scrollWidth <= body.clientWidth + 1)"
        )
        assert page.evaluate(across)
        tab.shot("hostile")
        page.goto(scene.url)
        tab.see("tr[data-session]", 1)
        assert page.evaluate("() => window.hurt") is None


def test_the_policy_forbids_what_is_not_ours(scene: Scene, tab: Tab) -> None:
    with scene.serving():
        page = tab.page
        answer = page.goto(scene.url)
        assert answer is not None
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
