"""The list that mounts only what is seen, alone: what is rendered, told and followed."""

from __future__ import annotations

import pytest

from tests.browser.scene import Scene
from tests.browser.tab import Tab
from tests.operators.records import Json

pytestmark = pytest.mark.browser


def look(scene: Scene, tab: Tab, then: str, guess: int = 20) -> Json:
    """1 000 rows of 50 px, thought to be ``guess``, in a box of 400 px; then ``then``."""
    with scene.serving():
        tab.open(scene.url)
        tab.see(".dashboard")
        found: Json = tab.page.evaluate(ALONE.replace("THEN", then).replace("GUESS", str(guess)))
        return found


def test_nothing_is_rendered_while_what_is_mounted_suffices(scene: Scene, tab: Tab) -> None:
    found = look(scene, tab, "await scroll(20_000); counted.rendered = 0; await scroll(20_100);")
    assert found["rendered"] == 0
    assert found["top"] == 20_100


def test_far_rows_are_rendered(scene: Scene, tab: Tab) -> None:
    found = look(scene, tab, "await scroll(0); counted.rendered = 0; await scroll(5_000);")
    assert found["rendered"] > 0
    assert found["seen"][0] <= found["first"] <= found["seen"][1]


def test_more_rows_are_rendered_where_they_prove_lower(scene: Scene, tab: Tab) -> None:
    found = look(scene, tab, "await scroll(90_000);", guess=400)
    assert found["covers"] is True


def test_a_scroll_is_told_once_though_heights_prove_wrong(scene: Scene, tab: Tab) -> None:
    found = look(scene, tab, "await scroll(9_000); counted.told = 0; await scroll(4_000);")
    assert found["told"] == 1


def test_the_end_is_followed_while_rows_come_before_the_browser_tells(
    scene: Scene, tab: Tab
) -> None:
    found = look(scene, tab, "list.toEnd(); list.setRows(many(2_000)); await frames();")
    assert found["following"] is True
    assert found["last"] == "row-1999"


def test_up_is_not_the_end(scene: Scene, tab: Tab) -> None:
    more = "list.toEnd(); await frames(); await scroll(box.scrollTop - 200);"
    found = look(scene, tab, more + "list.setRows(many(1_100)); await frames();")
    assert found["following"] is False
    assert found["last"] != "row-1099"


ALONE = """async () => {
  const { List } = await import("/static/js/list.js");
  const { html } = await import("/static/vendor/lit-html/lit-html.js");
  const box = document.body.appendChild(document.createElement("div"));
  box.className = "scroller";
  box.style.cssText = "position: fixed; inset: 0 auto auto 0; width: 300px; height: 400px";
  const many = (count) => Array.from({ length: count }, (_, at) => ({ key: `row-${at}` }));
  const counted = { rendered: 0, told: 0 };
  const list = new List(box, {
    estimate: () => GUESS,
    onscroll: () => (counted.told += 1),
    template: (row) => {
      counted.rendered += 1;
      return html`<div class="alone" data-key=${row.key} .style=${"height: 50px"}>${row.key}</div>`;
    },
  });
  const frames = async () => {
    for (let frame = 0; frame < 4; frame += 1) {
      await new Promise((done) => requestAnimationFrame(done));
    }
  };
  const scroll = async (top) => {
    box.scrollTop = top;
    await frames();
  };
  list.setRows(many(1_000));
  await frames();
  THEN
  const mounted = [...box.querySelectorAll(".alone")];
  const top = box.getBoundingClientRect().top;
  const first = mounted.findIndex((row) => row.getBoundingClientRect().bottom > top);
  const at = (row) => Number(row.dataset.key.slice(4));
  return {
    ...counted,
    top: box.scrollTop,
    following: list.following,
    last: mounted.at(-1).dataset.key,
    covers: mounted.at(-1).getBoundingClientRect().bottom >= box.getBoundingClientRect().bottom,
    first: at(mounted[first]),
    seen: [at(mounted[0]), at(mounted.at(-1))],
  };
}"""
