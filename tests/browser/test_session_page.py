"""A session in a real browser: the scenes of the reference, live and read again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.scene import Scene
from tests.browser.tab import Tab
from tests.operators.records import (
    Json,
    call,
    checkpoint,
    compaction_end,
    compaction_start,
    delta,
    done,
    result,
    run,
    say,
    step_end,
    step_start,
    summary,
    turn_end,
    turn_start,
    user,
)

pytestmark = pytest.mark.browser

OUTPUT = "\n".join(f"line {number} of the output" for number in range(60))
SUMMARY = "Parser fixed.\n  Two tests are left: «üñï» <b>not bold</b>"


def a_turn() -> list[Json]:
    return [
        turn_start(),
        user("fix the parser"),
        step_start(),
        say("I read it first.", calls=("a",)),
        call("a"),
        result("a", OUTPUT),
        step_end(),
        step_start(2),
        say("It is fixed.", step=2, usage={"inputTokens": 900, "outputTokens": 40}),
        step_end(2),
        turn_end(),
    ]


def compacted(first: int, nodes: list[int]) -> list[Json]:
    """A /compact from ``first`` on, of the nodes that there are."""
    return [
        run("c"),
        compaction_start(command="c"),
        summary(SUMMARY, shadowedSeqs=nodes, shadowedTokenCount=1_234, command="c"),
        checkpoint(nodes[0], nodes[-1], [first + 1, first + 2, *nodes], command="c"),
        compaction_end(),
        done("c", source=first + 2),
    ]


NODES = [1, 3, 5, 8]


def rows(tab: Tab) -> Any:
    """Key, text and seq of each mounted row."""
    return tab.page.evaluate(
        "() => [...document.querySelectorAll('.transcript .row')].map((row) =>"
        " [row.dataset.key, row.innerText])"
    )


def test_corpus_1_5_a_turn_its_tool_output_and_exactly_one_compact_row(
    scene: Scene, tab: Tab
) -> None:
    scene.tell("s-1", *a_turn(), *compacted(11, NODES))
    with scene.serving():
        page = tab.open(scene.of("s-1"))
        tab.see(".row .compaction")
        assert page.locator(".row .compaction").count() == 1
        told = page.locator(".row .compaction").inner_text()
        assert "/compact" in told
        assert "4 items replaced" in told
        assert "1.2K tokens replaced" in told
        assert page.locator(".row.command").count() == 1
        assert page.locator(".row.compaction").count() == 0
        page.locator(".row .compaction .fold").click()
        assert page.locator(".summary .text").first.evaluate("node => node.textContent") == SUMMARY
        page.locator(".row.tool .head").click()
        tab.see(".row.tool .output")
        shown = page.locator(".row.tool .output .text").evaluate("node => node.textContent")
        assert shown == OUTPUT
        assert page.locator(".row.user").count() == 1  # the checkpoint is no prompt
        assert page.locator(".row.assistant").count() == 2  # what was compacted stays
        tab.shot("compaction")


def test_live_is_what_a_reload_shows(scene: Scene, tab: Tab) -> None:
    log = [*a_turn(), *compacted(11, NODES)]
    scene.tell("s-1", log[0])
    with scene.serving():
        tab.open(scene.of("s-1"))
        tab.see(".session-head .live-mark:not(.stale)")
        for at in range(1, len(log), 4):
            scene.tell("s-1", *log[at : at + 4])
        tab.see(".row .compaction.landed")
        tab.page.wait_for_function(
            "() => document.querySelector('.meta').innerText.includes('#16')"
        )
        live = rows(tab)
        tab.page.reload()
        tab.see(".row .compaction.landed")
        tab.page.wait_for_function(
            "() => document.querySelector('.meta').innerText.includes('#16')"
        )
        assert rows(tab) == live
        assert len(live) == 6


def test_a_storm_of_chunks_changes_text_and_nothing_else(scene: Scene, tab: Tab) -> None:
    scene.tell("s-1", *a_turn(), turn_start(2), user("more", "m-2"), step_start(1, turn=2))
    scene.tell("s-1", delta("It ", turn=2))
    with scene.serving():
        page = tab.open(scene.of("s-1"))
        tab.see(".row.assistant .flag.live")
        page.evaluate(WATCH)
        for number in range(40):
            scene.tell("s-1", delta(f"word{number} ", turn=2))
        page.wait_for_function("() => document.body.innerText.includes('word39')")
        seen = page.evaluate("() => window.seen")
        assert seen["rows"] == []  # no row came, went or was made again
        assert seen["texts"] == ["assistant:14"]
        scene.tell("s-1", say("It is done.", turn=2), step_end(turn=2), turn_end(2))
        tab.see(".row.turn", 2)


def test_an_append_renders_one_row(scene: Scene, tab: Tab) -> None:
    scene.tell("s-1", *a_turn())
    with scene.serving():
        page = tab.open(scene.of("s-1"))
        tab.see(".row.turn")
        page.evaluate(WATCH)
        scene.tell("s-1", user("and the tests?", "m-2"))
        page.wait_for_function("() => document.body.innerText.includes('and the tests?')")
        assert page.evaluate("() => window.seen.rows") == ["+user:11"]


WATCH = """() => {
  window.seen = { rows: [], texts: [] };
  const name = (node) => node.parentElement?.closest?.(".row")?.dataset.key;
  const noted = new Set();
  new MutationObserver((changes) => {
    for (const change of changes) {
      for (const [sign, nodes] of [["+", change.addedNodes], ["-", change.removedNodes]])
        for (const node of nodes)
          if (node.classList?.contains("row")) window.seen.rows.push(sign + node.dataset.key);
      if (change.type === "characterData") {
        const key = name(change.target);
        if (key && change.target.parentElement.classList.contains("text") && !noted.has(key))
          window.seen.texts.push(key), noted.add(key);
      }
    }
  }).observe(document.querySelector(".mounted"), {
    subtree: true, childList: true, characterData: true,
  });
}"""


def test_corpus_8_a_running_compaction_is_progress_and_its_failure_is_said(
    scene: Scene, tab: Tab
) -> None:
    scene.tell("s-1", *a_turn(), compaction_start())
    with scene.serving():
        page = tab.open(scene.of("s-1"))
        tab.see(".row .compaction.running progress")
        assert "Compacting" in page.locator(".row .compaction").inner_text()
        scene.tell("s-1", compaction_end(error="the model is overloaded"))
        tab.see(".row .compaction.failed")
        assert "the model is overloaded" in page.locator(".row .compaction").inner_text()


def test_corpus_34_the_context_is_unknown_until_it_is_measured(scene: Scene, tab: Tab) -> None:
    scene.tell("s-1", *a_turn(), *compacted(11, NODES))
    with scene.serving():
        page = tab.open(scene.of("s-1"))
        tab.see(".session-head .gauge.unknown")
        assert "unknown until measured" in page.locator(".session-head .gauge").inner_text()


def test_the_model_view_says_what_is_seen_and_what_was(scene: Scene, tab: Tab) -> None:
    scene.tell("s-1", *a_turn(), *compacted(11, NODES), user("and the tests?", "m-2"))
    with scene.serving():
        page = tab.open(scene.of("s-1"))
        tab.see(".row.user")
        page.keyboard.press("m")
        tab.see(".pane.model .node", 2)
        tab.see(".row.shadowed")
        marked = page.evaluate(
            "() => Object.fromEntries([...document.querySelectorAll('.transcript .row')]"
            ".map((row) => [row.dataset.key, row.querySelector('.placed').textContent]))"
        )
        assert marked == {
            "user:1": "shadowed",
            "assistant:3": "shadowed",
            "tool:4": "shadowed",
            "assistant:8": "shadowed",
            "turn:10": "log-only",
            "command:11": "current",
            "user:17": "current",
        }
        page.locator(".row[data-key='user:1'] .placed").click()  # to what replaced it
        tab.see(".row[data-key='command:11'].selected")
        page.locator(".slider input[type=range]").press("ArrowLeft")
        tab.see(".pane.model .node", 4)
        tab.see(".row[data-key='user:17'].later")
        tab.see(".row[data-key='user:1'].current")
        assert "before compaction 1 of 1" in page.locator(".slider").inner_text()
        page.locator(".pane.model .node a").nth(1).click()
        tab.see(".row[data-key='assistant:3'].selected")
        tab.shot("model-view")


@pytest.mark.parametrize("seq", [1, 4, 5, 8])
def test_a_deep_link_lands_on_the_row_of_its_event(scene: Scene, tab: Tab, seq: int) -> None:
    scene.tell("s-1", *a_turn())
    with scene.serving():
        tab.open(scene.of("s-1", seq))
        key = {1: "user:1", 4: "tool:4", 5: "tool:4", 8: "assistant:8"}[seq]
        tab.see(f".row[data-key='{key}'].selected")
