/** The page of all sessions. */
import { html, nothing, render } from "../vendor/lit-html/lit-html.js";
import { guard } from "../vendor/lit-html/directives/guard.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { SORTS, address } from "./dashboard.js";
import { errors, gauge, tokens } from "./figures.js";
import { age, date, short, whole } from "./format.js";
import { link } from "./session.js";
import { STATES, stateOf, unreadText } from "./states.js";
import { stale } from "./session_view.js";
import { line } from "./text.js";

const LABEL = { activity: "last activity", created: "created", title: "title", tokens: "tokens", errors: "errors", compactions: "compactions" };

export class DashboardView {
  constructor(app, dashboard, root) {
    this.app = app;
    this.dashboard = dashboard;
    this._root = root;
    root.className = "dashboard";
    document.title = "Sessions · foldstream";
  }

  close() {
    render(nothing, this._root);
  }

  paint() {
    render(this._page(), this._root);
  }

  _page() {
    const { dashboard } = this;
    const { rows } = dashboard;
    return html`<div class="dash-head">
        <h1>Sessions</h1>
        ${stale(dashboard.stale)}
        ${this._states(rows)}
        <form class="dash-search" role="search" @submit=${(event) => this._search(event)}>
          <input class="search" data-search type="search" name="q" .value=${dashboard.asked.q} placeholder="Title, id, folder, model  ( / )" aria-label="search sessions" autocomplete="off" @input=${(event) => this._typed(event)} />
        </form>
        ${this._sort()}
      </div>
      ${dashboard.failed ? html`<p class="note bad" role="alert">${dashboard.failed.message}</p>` : nothing}
      ${rows.length ? this._table(rows) : this._none()}
      ${dashboard.next ? html`<p class="more-row"><button class="button" @click=${() => dashboard.more()}>More sessions</button></p>` : nothing}`;
  }

  /** The server counts what the logs say; which of these are stalled, the clock says here. */
  _states(rows) {
    const { asked, counts } = this.dashboard;
    const now = this.app.now();
    const stalled = (state) => rows.filter((row) => row.state === state && stateOf(row, now).name === "stalled").length;
    const there = STATES.filter((state) => counts?.[state] || asked.state.includes(state));
    return html`<div class="chips" role="group" aria-label="filter by state">
      ${there.map((state) => {
        const on = asked.state.includes(state);
        const silent = stalled(state);
        return html`<button class="chip ${state}" aria-pressed=${on} @click=${() => this._toggle(state)}><i aria-hidden="true"></i>${state} <b>${whole(counts?.[state] ?? 0)}</b>${silent ? html`<span class="silent">${whole(silent)} stalled</span>` : nothing}</button>`;
      })}
    </div>`;
  }

  _sort() {
    const { asked } = this.dashboard;
    const down = asked.order === "desc";
    return html`<div class="sort">
      <label class="pick">sort by <select aria-label="sort by" @change=${(event) => this._go({ sort: event.target.value })}>
        ${SORTS.map((sort) => html`<option value=${sort} ?selected=${sort === asked.sort}>${LABEL[sort]}</option>`)}
      </select></label>
      <button class="button" aria-label=${down ? "descending; make it ascending" : "ascending; make it descending"} @click=${() => this._go({ order: down ? "asc" : "desc" })}>${down ? "↓" : "↑"}</button>
    </div>`;
  }

  _table(rows) {
    const now = this.app.now();
    return html`<table class="sessions">
      <thead><tr>
        <th scope="col">State</th><th scope="col">Session</th><th scope="col">Model</th><th scope="col">Context</th>
        <th scope="col" class="number">Tokens</th><th scope="col" class="number">Errors</th><th scope="col" class="number">Compactions</th><th scope="col" class="number">Age</th>
      </tr></thead>
      <tbody>${repeat(rows, ({ session }) => session, (overview) => {
        const told = age(overview.last_time, now);
        const unread = this.app.unread.of(overview);
        const selected = overview.session === this.dashboard.selected;
        const state = stateOf(overview, now);
        return guard([overview, told, unread, selected, state.name], () => this._row(overview, { told, unread, selected, state }));
      })}</tbody>
    </table>`;
  }

  _row(overview, { told, unread, selected, state }) {
    const used = tokens(overview);
    const failed = errors(overview);
    const landed = overview.counts.compactions_landed ?? 0;
    const to = link(overview.session);
    return html`<tr class=${selected ? "selected" : ""} data-session=${overview.session} @click=${(event) => this._open(event, to)}>
      <td data-label="State"><span class="state ${state.name}">${state.said}</span></td>
      <td class="what" data-label="Session">
        <a href=${to} dir="auto">${overview.title ? line(overview.title) : line(overview.session)}</a>
        ${unread ? html`<span class="unread" title=${unreadText(unread)}>${short(unread)}<span class="hidden"> new rows</span></span>` : nothing}
        <span class="sub">${overview.title ? html`<span class="mono">${line(overview.session)}</span>` : nothing}${overview.cwd ? html` <span class="mono">${line(overview.cwd)}</span>` : nothing}${overview.parent ? html` <span>${line(overview.origin ?? "child")}</span>` : nothing}</span>
      </td>
      <td data-label="Model">${overview.model ? line(overview.model) : html`<span class="unknown">–</span>`}</td>
      <td data-label="Context">${gauge(overview, false)}</td>
      <td class="number" data-label="Tokens" title=${used ? `${whole(used.input)} in, ${whole(used.output)} out` : "unknown"}>${used ? html`${short(used.input)}<span class="sep"> / </span>${short(used.output)}` : "?"}</td>
      <td class="number ${failed ? "bad" : "zero"}" data-label="Errors">${whole(failed)}</td>
      <td class="number ${landed ? "" : "zero"}" data-label="Compactions">${whole(landed)}</td>
      <td class="number" data-label="Age" title=${date(overview.last_time)}>${told}</td>
    </tr>`;
  }

  _none() {
    const { asked, counts } = this.dashboard;
    if (!counts) return html`<p class="empty" role="status">Reading sessions …</p>`;
    if (asked.q || asked.state.length) {
      return html`<p class="empty" role="status">No session fits. <a href="#/">Show all</a></p>`;
    }
    return html`<div class="empty" role="status"><p>There are no sessions yet.</p>
      <p>They appear here as they are written: <code>foldstream ingest --follow DIR</code></p></div>`;
  }

  _open(event, to) {
    if (!event.target.closest("a") && !window.getSelection()?.toString()) window.location.hash = to;
  }

  _go(change) {
    window.location.replace(address({ ...this.dashboard.asked, ...change }));
  }

  _toggle(state) {
    const { state: states } = this.dashboard.asked;
    this._go({ state: states.includes(state) ? states.filter((each) => each !== state) : [...states, state] });
  }

  _typed(event) {
    clearTimeout(this._typing);
    const q = event.target.value;
    this._typing = setTimeout(() => this._go({ q }), 250);
  }

  _search(event) {
    event.preventDefault();
    clearTimeout(this._typing);
    this._go({ q: new FormData(event.target).get("q") });
  }

  // --- keys

  onKey(event) {
    const { dashboard } = this;
    const rows = dashboard.rows;
    const at = rows.findIndex(({ session }) => session === dashboard.selected);
    const go = (index) => {
      const row = rows[Math.max(0, Math.min(rows.length - 1, index))];
      if (!row) return;
      dashboard.selected = row.session;
      this.paint();
      this._root.querySelector("tr.selected a")?.focus();
    };
    switch (event.key) {
      case "j": case "ArrowDown": go(at + 1); return true;
      case "k": case "ArrowUp": go(at < 0 ? 0 : at - 1); return true;
      case "g": go(0); return true;
      case "G": go(rows.length - 1); return true;
      case "Escape": this._go({ q: "", state: [] }); return true;
      default: return false;
    }
  }

}
