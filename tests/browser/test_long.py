"""A session of very many rows: what is mounted, where the reader stays, what scrolling costs."""

from __future__ import annotations

import os

import pytest

from tests.browser.scene import Scene
from tests.browser.tab import Tab
from tests.operators.records import Json, say, turn_end, turn_start, user

pytestmark = pytest.mark.browser

MOUNTED = 150
TURNS = 400  # a few pages; `make test-browser` with FOLDSTREAM_ROWS=30000 is the whole thing
ROWS = int(os.environ.get("FOLDSTREAM_ROWS", "0"))
COST = os.environ.get("FOLDSTREAM_ROWS") is not None


def a_long_log(turns: int) -> list[Json]:
    words = "it reads what is there and says what it finds "
    return [
        record
        for number in range(turns)
        for record in (
            turn_start(number),
            user(f"question {number}", f"q-{number}"),
            say(f"answer {number}: {words * (1 + number % 7)}", turn=number),
            turn_end(number),
        )
    ]


def test_corpus_31_41_few_rows_are_mounted_and_the_reader_stays(scene: Scene, tab: Tab) -> None:
    scene.tell("s-1", *a_long_log(TURNS))
    with scene.serving():
        page = tab.open(scene.of("s-1"))
        tab.see(f".row[data-key='user:{4 * TURNS - 3}']")
        first = "() => document.querySelector('.transcript .row').dataset.key"
        totals = page.locator(".figures-row dd").first.inner_text()
        assert totals == f"{2 * TURNS}"
        seen = page.evaluate(UP_AND_LOOK)
        # Pages come above; what is at the top stays there.
        page.wait_for_function(
            "(tall) => document.querySelector('.space').offsetHeight > tall", arg=seen["tall"]
        )
        now = page.evaluate(f"() => ({LOOK})()")
        assert now["key"] == seen["key"]
        assert abs(now["y"] - seen["y"]) < 3
        assert page.locator(".figures-row dd").first.inner_text() == totals  # of the whole log
        scene.tell("s-1", user("meanwhile", "m"))
        page.get_by_text(f"as of #{4 * TURNS}").wait_for()
        assert page.evaluate(f"() => ({LOOK})()")["key"] == seen["key"]
        page.keyboard.press("g")
        tab.see(".row[data-key='user:1'].selected")
        assert page.locator(".transcript .row").count() <= MOUNTED
        page.keyboard.press("G")
        tab.see(f".row[data-key='user:{4 * TURNS}']")
        assert page.locator(".transcript .row").count() <= MOUNTED
        assert page.evaluate(first) != "user:1"


LOOK = """() => {
  const scroller = document.querySelector(".transcript .scroller");
  const top = scroller.getBoundingClientRect().top;
  const row = [...document.querySelectorAll(".transcript .row")]
    .find((each) => each.getBoundingClientRect().bottom > top + 1);
  const tall = document.querySelector(".transcript .space").offsetHeight;
  return { key: row.dataset.key, y: row.getBoundingClientRect().top - top, tall };
}"""

# What is at the top one frame after scrolling up: before the next page can be there.
UP_AND_LOOK = f"""async () => {{
  document.querySelector(".transcript .scroller").scrollTop = 900;
  await new Promise((done) => requestAnimationFrame(done));
  return ({LOOK})();
}}"""


@pytest.mark.bench
@pytest.mark.skipif(not COST, reason="FOLDSTREAM_ROWS says how many rows to scroll through")
def test_what_scrolling_costs(scene: Scene, tab: Tab) -> None:
    """Prints milliseconds of script per frame; nothing is asserted of time (tests/bench rules)."""
    scene.tell("s-1", *a_long_log(ROWS // 3))
    with scene.serving():
        page = tab.open(scene.of("s-1"))
        tab.see(f".row[data-key='turn:{scene.next_seq('s-1') - 1}']")
        page.reload()  # what came live is not held any more: all pages are fetched
        tab.see(".row.turn")
        page.evaluate(LOAD_ALL)
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable")
        before = metrics(devtools)
        frames = page.evaluate(SCROLL)
        after = metrics(devtools)
        script = 1_000 * (after["ScriptDuration"] - before["ScriptDuration"]) / frames["count"]
        print(  # noqa: T201 - what it is for
            f"\n{frames['rows']} rows held, {frames['mounted']} mounted at most, {frames['count']}"
            f" frames: {script:.2f} ms of script per frame on average, longest handler"
            f" {frames['longest']:.1f} ms, {after['JSHeapUsedSize'] / 2**20:.0f} MiB of heap"
        )
        assert frames["mounted"] <= MOUNTED


@pytest.mark.bench
@pytest.mark.skipif(not COST, reason="FOLDSTREAM_ROWS says how many rows: 150000 are 200000 events")
def test_what_the_first_screen_takes(scene: Scene, tab: Tab) -> None:
    """Prints milliseconds from the navigation to the painted rows, nothing cached, five times."""
    scene.tell("s-1", *a_long_log(ROWS // 3))
    last = scene.next_seq("s-1") - 1
    with scene.serving():
        page = tab.open(scene.of("s-1"))
        page.locator(f".row[data-key='turn:{last}']").wait_for(timeout=600_000)
        page.add_init_script(FIRST_SCREEN)
        devtools = page.context.new_cdp_session(page)
        devtools.send("Network.enable")
        devtools.send("Network.setCacheDisabled", {"cacheDisabled": True})
        taken = []
        for _ in range(5):
            page.reload()
            tab.see(f".row[data-key='turn:{last}']")
            taken.append(page.evaluate("() => window.firstScreen"))
        told = ", ".join(f"{ms:.0f}" for ms in sorted(taken))
        print(f"\n{last + 1} events: first screen after {told} ms")  # noqa: T201 - what it is for


def metrics(devtools: object) -> dict[str, float]:
    found = devtools.send("Performance.getMetrics")["metrics"]  # type: ignore[attr-defined]
    return {each["name"]: each["value"] for each in found}


# Two frames after the first row is there it has been painted.
FIRST_SCREEN = """window.firstScreen = new Promise((done) => {
  const look = () =>
    document.querySelector(".transcript .row")
      ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))
      : requestAnimationFrame(look);
  requestAnimationFrame(look);
});"""

LOAD_ALL = """async () => {
  const scroller = document.querySelector(".transcript .scroller");
  const first = () => document.querySelector(".transcript .row").dataset.key;
  while (first() !== "user:1") {
    scroller.scrollTop = 0;
    await new Promise((done) => setTimeout(done, 20));
  }
}"""

SCROLL = """async () => {
  const scroller = document.querySelector(".transcript .scroller");
  scroller.scrollTop = scroller.scrollHeight;
  await new Promise((done) => setTimeout(done, 500));
  const rows = Number([...scroller.querySelectorAll(".row")].at(-1).ariaPosInSet);
  let [count, mounted, longest] = [0, 0, 0];
  for (let y = 0; y < 60000; y += 400) {
    scroller.scrollTop = y;
    await new Promise((done) => requestAnimationFrame(() => {
      const start = performance.now();
      setTimeout(() => { longest = Math.max(longest, performance.now() - start); done(); });
    }));
    count += 1;
    mounted = Math.max(mounted, document.querySelectorAll(".transcript .row").length);
  }
  return { count, mounted, longest, rows };
}"""
