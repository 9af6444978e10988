/** The page of one session: figures above, the transcript, the model's view beside it. */
import { html, nothing, render } from "../vendor/lit-html/lit-html.js";
import { guard } from "../vendor/lit-html/directives/guard.js";
import { ago, date } from "./format.js";
import { facts, gauge, quality } from "./figures.js";
import { hits } from "./hits.js";
import { List } from "./list.js";
import { modelPane, nodeTemplate } from "./model_pane.js";
import { estimate, nodeSeq, rowTemplate } from "./rows.js";
import { ONLY, link } from "./session.js";
import { stateOf } from "./states.js";
import { line } from "./text.js";
import { timeline, turnsOf } from "./timeline.js";

const NEAR = 1_800; // pixels from an end at which the next page is asked for

export class SessionView {
  constructor(app, session, root) {
    this.app = app;
    this.session = session;
    this._frame = root;
    root.className = "session";
    render(FRAME, root);
    const part = (name) => root.querySelector(`[data-part=${name}]`);
    this._head = part("head");
    this._foot = part("foot");
    this._side = part("side");
    this._sideHead = part("side-head");
    this._list = new List(part("rows"), {
      estimate,
      template: (row, index) => this._row(row, index),
      onscroll: () => this._onScroll(),
    });
    this._nodes = new List(part("nodes"), {
      estimate: () => 66,
      template: (node) => guard([node], () => nodeTemplate(node, session)),
      follows: false,
    });
  }

  close() {
    this._list.close();
    this._nodes.close();
    render(nothing, this._frame);
  }

  paint() {
    const { session } = this;
    render(this._headTemplate(), this._head);
    this._paintRows();
    render(this._footTemplate(), this._foot);
    this._paintSide();
    this._onScroll();
    document.title = `${session.overview?.title ? line(session.overview.title) : session.id} · foldstream`;
  }

  _paintRows() {
    const { session } = this;
    if (this._list.rows !== session.rows || this._structure !== session.keyed.structure) {
      this._structure = session.keyed.structure;
      this._list.setRows(session.rows);
    } else {
      this._list.paint();
    }
    const wanted = session.scrollTo;
    session.scrollTo = null;
    if (wanted === "end") this._list.toEnd();
    else if (wanted) this._reveal(wanted);
  }

  _reveal({ key, how }) {
    this._list.show(indexOf(this.session.rows, key), how);
    const element = this._list.element(key);
    if (element && !this._frame.querySelector("input:focus")) element.focus({ preventScroll: true });
  }

  _row(place, index) {
    const { session } = this;
    const row = session.now(place);
    const mark = session.model.open ? session.model.mark(row, nodeSeq(row)) : null;
    const selected = session.selected === row.key;
    return guard([row, mark, selected, ...session.looks(row), index], () =>
      rowTemplate(row, session, { mark, selected, index }),
    );
  }

  _onScroll() {
    const { session } = this;
    const { above, below } = this._list.beyond;
    session.reading = this._list.following ? null : (session.rows[this._list.topIndex]?.anchor_seq ?? null);
    if (above < NEAR && session.hasOlder) session.older();
    if (!session.atTail && below < NEAR) session.newer();
    render(this._footTemplate(), this._foot);
  }

  _paintSide() {
    const { model } = this.session;
    this._frame.classList.toggle("with-model", model.open);
    this._side.hidden = !model.open;
    if (!model.open) return;
    render(modelPane(model), this._sideHead);
    if (this._surface !== model.surface) {
      this._surface = model.surface;
      this._nodes.setRows((model.surface?.nodes ?? []).map((node) => ({ ...node, key: `node:${node.seq}` })));
    }
  }

  // --- templates

  _headTemplate() {
    const { session } = this;
    const { overview } = session;
    if (!overview) {
      const why = session.failed?.status === 404 ? "There is no such session, or not yet." : (session.failed?.message ?? "Reading the session …");
      return html`<div class="waiting" role="status"><h1>${line(session.id)}</h1><p>${why}</p></div>`;
    }
    const state = stateOf(overview, this.app.now());
    return html`<div class="title-row">
        <h1 dir="auto">${overview.title ? line(overview.title) : line(session.id)}</h1>
        <span class="state ${state.name}">${state.said}</span>
        ${stale(session.stale)}
        ${quality(overview)}
      </div>
      <div class="meta">
        ${overview.model ? html`<span>${line(overview.model)}</span>` : nothing}
        ${overview.cwd ? html`<span class="path" dir="ltr">${line(overview.cwd)}</span>` : nothing}
        <span title=${date(overview.last_time)}>last event ${ago(overview.last_time, this.app.now())}</span>
        <span>as of #${overview.as_of_seq ?? "–"}</span>
        ${overview.parent ? html`<a href=${link(overview.parent)}>${overview.origin ? line(overview.origin) : "child"} of ${line(overview.parent)}</a>` : nothing}
        <a href=${exportLink(session, "md")} download>export md</a><a href=${exportLink(session, "html")} download>html</a><a href=${exportLink(session, "jsonl")} download>jsonl</a>
      </div>
      <div class="figures-row">
        <dl>${facts(overview).map(([name, value, why]) => html`<div title=${why}><dt>${name}</dt><dd>${value}</dd></div>`)}
          <div class="wide"><dt>context</dt><dd>${gauge(overview)}</dd></div>
        </dl>
        ${this._timeline()}
      </div>
      ${this._tools()}
      ${session.failed ? html`<p class="note bad" role="alert">Rows could not be read: ${session.failed.message}</p>` : nothing}
      ${hits(session)}`;
  }

  _tools() {
    const { session } = this;
    return html`<div class="tools" role="toolbar" aria-label="transcript">
      <form role="search" @submit=${(event) => this._search(event)}>
        <input class="search" data-search type="search" name="q" placeholder="Search this session  ( / )" aria-label="search this session" autocomplete="off" />
      </form>
      <label class="pick">show <select aria-label="which rows" .value=${session.only} @change=${(event) => this._only(event.target.value)}>
        ${Object.keys(ONLY).map((name) => html`<option value=${name} ?selected=${name === session.only}>${name}</option>`)}
      </select></label>
      <label class="pick"><input type="checkbox" .checked=${session.everything} @change=${(event) => this._everything(event.target.checked)} /> log details</label>
      <button class="button" aria-pressed=${session.model.open} @click=${() => session.model.toggle()}>Model view <kbd>m</kbd></button>
    </div>`;
  }

  _footTemplate() {
    const { session } = this;
    if (session.overview && !this._list.following) {
      const text = session.atTail ? "Newest" : "To the newest";
      return html`<button class="to-end" @click=${() => session.toTail()}>${text} ↓ <kbd>G</kbd></button>`;
    }
    return nothing;
  }

  _timeline() {
    const { session } = this;
    const { structure, windowRows } = session.keyed;
    return guard([structure], () => timeline(turnsOf(windowRows), (turn) => session.goTo(turn.seq)));
  }

  _only(name) {
    this.session.only = name;
    this.app.changed();
  }

  _everything(wanted) {
    this.session.everything = wanted;
    this.app.changed();
  }

  async _search(event) {
    event.preventDefault();
    const q = new FormData(event.target).get("q").trim();
    this.session.found = q ? { q } : null;
    this.app.changed();
    if (!q) return;
    try {
      const found = await this.session.client.get("/v1/search", { q, session: this.session.id, limit: 100 });
      if (this.session.found?.q === q) this.session.found = { q, ...found };
    } catch (error) {
      this.session.found = { q, failed: error.message };
    }
    this.app.changed();
  }

  // --- keys

  /** Whether the key meant something here. */
  onKey(event) {
    const act = KEYS[event.key];
    if (!act) return false;
    act(this);
    return true;
  }

  step(by, fits = () => true) {
    const { rows, selected } = this.session;
    let index = selected === null ? (by > 0 ? this._list.topIndex - 1 : this._list.topIndex + 1) : indexOf(rows, selected);
    do index += by;
    while (rows[index] && !fits(rows[index]));
    if (rows[index]) this.session.select(rows[index].key, "near");
  }

  async toStart() {
    await this.session.goTo(0);
    const first = this.session.rows[0];
    if (first) this.session.select(first.key, "top");
  }

  expand() {
    const row = this.session.selectedRow;
    const element = row && this._list.element(row.key);
    element?.querySelector("button[aria-expanded]")?.click();
  }

  copyLink() {
    const row = this.session.selectedRow;
    if (!row) return;
    const url = new URL(this.session.link(row), window.location.href).href;
    navigator.clipboard?.writeText(url).then(
      () => this.app.say("Link copied"),
      () => this.app.say("The browser does not let the page copy"),
    );
  }

  modelHere() {
    const row = this.session.selectedRow;
    if (row) this.session.model.look(row.anchor_seq);
  }

  escape() {
    const { session } = this;
    if (session.found) session.found = null;
    else if (session.model.open) return session.model.toggle();
    else if (session.selected !== null) session.selected = null;
    else window.location.hash = "#/";
    this.app.changed();
  }
}

const KEYS = {
  j: (view) => view.step(1),
  k: (view) => view.step(-1),
  ArrowDown: (view) => view.step(1),
  ArrowUp: (view) => view.step(-1),
  J: (view) => view.step(1, (row) => row.kind === "user" || row.kind === "turn"),
  K: (view) => view.step(-1, (row) => row.kind === "user" || row.kind === "turn"),
  g: (view) => view.toStart(),
  G: (view) => view.session.toTail(),
  e: (view) => view.expand(),
  c: (view) => view.copyLink(),
  m: (view) => view.session.model.toggle(),
  v: (view) => view.modelHere(),
  "[": (view) => view.app.neighbour(view.session.id, -1),
  "]": (view) => view.app.neighbour(view.session.id, 1),
  Escape: (view) => view.escape(),
};

const indexOf = (rows, key) => rows.findIndex((row) => row.key === key);

const exportLink = (session, format) => `/v1/sessions/${encodeURIComponent(session.id)}/export?format=${format}`;

export function stale(told) {
  if (!told) return html`<span class="live-mark" role="status"><i aria-hidden="true"></i>live</span>`;
  const since = told.since ? `, stale since ${date(told.since)}` : "";
  return html`<span class="live-mark stale" role="status"><i aria-hidden="true"></i>${told.text}${since}</span>`;
}

const FRAME = html`<section class="session-head" data-part="head"></section>
  <div class="panes">
    <section class="pane transcript" aria-labelledby="transcript-title">
      <h2 class="hidden" id="transcript-title">Transcript</h2>
      <div class="scroller" data-part="rows" role="feed" aria-label="transcript" tabindex="0"></div>
      <div class="foot" data-part="foot"></div>
    </section>
    <section class="pane model" data-part="side" aria-label="what the model sees" hidden>
      <div data-part="side-head"></div>
      <div class="scroller" data-part="nodes" role="list" aria-label="nodes in order" tabindex="0"></div>
    </section>
  </div>`;
