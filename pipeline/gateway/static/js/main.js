/** The page put together: addresses, one paint per frame, keys, colours, logging in. */
import { html, nothing, render } from "../vendor/lit-html/lit-html.js";
import { Client } from "./client.js";
import { Dashboard, read } from "./dashboard.js";
import { DashboardView } from "./dashboard_view.js";
import { help, login } from "./dialogs.js";
import { Session, link } from "./session.js";
import { SessionView } from "./session_view.js";
import { Unread } from "./unread.js";

const AGES = 10_000; // ms between two paints for the ages alone
const THEMES = ["auto", "light", "dark"];

class App {
  constructor(root) {
    this.client = new Client();
    this.unread = new Unread(storage());
    this.live = this.client.live();
    this._root = root;
    this._view = null;
    this._model = null;
    this._order = [];
    this._helping = false;
    this._said = "";
    this._locked = false;
    root.replaceChildren();
    this._bar = root.appendChild(document.createElement("header"));
    this._bar.className = "bar";
    this._main = root.appendChild(document.createElement("main"));
    this._main.id = "main";
    this._over = root.appendChild(document.createElement("div"));
  }

  start() {
    setTheme(theme());
    this.live.onchange = (session) => {
      if (this._model instanceof Dashboard) this._model.told(session);
      this.changed();
    };
    this.live.onstate = () => this.changed();
    window.addEventListener("hashchange", () => this.route());
    document.addEventListener("keydown", (event) => this._onKey(event));
    for (const woken of ["visibilitychange", "resume", "pageshow"]) document.addEventListener(woken, () => this._wake());
    window.addEventListener("online", () => this._wake());
    window.addEventListener("pageshow", () => this._wake());
    setInterval(() => this.changed(), AGES);
    this.route();
  }

  now() {
    return Date.now();
  }

  /** Something is not as it was painted: paint once, in the next frame. */
  changed() {
    this._frame ??= requestAnimationFrame(() => this._paint());
  }

  /** A word to the person, for a while. */
  say(text) {
    this._said = text;
    clearTimeout(this._saying);
    this._saying = setTimeout(() => this.say(""), 3_000);
    this.changed();
  }

  /** The session above or below one in the list that was last seen. */
  neighbour(id, by) {
    const next = this._order[this._order.indexOf(id) + by];
    if (next) window.location.hash = link(next);
  }

  route() {
    const [, where = "", ...rest] = window.location.hash.split("/");
    if (where !== "s" || !rest[0]) {
      const asked = read(where.startsWith("?") ? where.slice(1) : rest.join("/"));
      if (this._model instanceof Dashboard) this._model.ask(asked);
      else this._show(new Dashboard(this, asked), DashboardView);
      return;
    }
    const id = decoded(rest[0]);
    const seq = /^\d{1,15}$/.test(rest[1] ?? "") ? Number(rest[1]) : null;
    if (this._model instanceof Session && this._model.id === id) {
      if (seq !== null) this._model.goTo(seq);
    } else {
      this._show(new Session(this, id, seq), SessionView);
    }
  }

  _show(model, View) {
    if (this._model instanceof Dashboard) this._order = this._model.listed.map(({ session }) => session);
    this._model?.close();
    this._view?.close();
    this._model = model;
    this._view = new View(this, model, this._main);
    // One stream per tab: a browser has six connections for all of them.
    if (model instanceof Dashboard) this.live.start();
    else this.live.stop();
    model.start();
    this.changed();
  }

  _wake() {
    if (document.visibilityState !== "visible") return;
    this.live.wake();
    this._model?.wake?.();
    this.changed();
  }

  _paint() {
    this._frame = null;
    this._read();
    this._locked = [this._model.failed?.status, this.live.state.status].includes(401);
    render(this._barTemplate(), this._bar);
    render(this._overTemplate(), this._over);
    this._view.paint();
  }

  /** Whoever looks at the end of a session has read it. */
  _read() {
    const { overview, atTail } = this._model;
    if (overview && atTail && document.visibilityState === "visible") this.unread.read(overview);
  }

  _barTemplate() {
    return html`<a class="skip" href="#main" @click=${(event) => this._skip(event)}>Skip to the content</a>
      <a class="brand" href="#/"><svg viewBox="0 0 32 32" width="18" height="18" aria-hidden="true"><path d="M5 8h22M5 16h13M5 24h22" /><path class="turn" d="m24 12.5 4 3.5-4 3.5" /></svg>foldstream</a>
      ${this._model instanceof Session ? html`<nav aria-label="where"><a href="#/">Sessions</a></nav>` : nothing}
      <span class="said" role="status">${this._said}</span>
      <button class="quiet" @click=${() => this._nextTheme()} title="colours">${theme()}<span class="hidden"> colours</span></button>
      <button class="quiet" @click=${() => this._help(true)} title="keys (?)">keys <kbd>?</kbd></button>`;
  }

  _overTemplate() {
    if (this._locked) return login((token) => this._login(token), this._loginFailed);
    return this._helping ? help(() => this._help(false)) : nothing;
  }

  async _login(token) {
    try {
      await this.client.request("/v1/login", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }),
      });
      window.location.reload();
    } catch (error) {
      this._loginFailed = error.message;
      this.changed();
    }
  }

  _help(wanted) {
    if (wanted) this._focused = document.activeElement;
    this._helping = wanted;
    this._paint();
    if (wanted) this._over.querySelector("button")?.focus();
    else this._focused?.focus();
  }

  _skip(event) {
    event.preventDefault();
    (this._main.querySelector(".scroller") ?? this._main.querySelector("a"))?.focus();
  }

  _nextTheme() {
    setTheme(THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);
    this.changed();
  }

  _onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || this._locked) return;
    const { target } = event;
    if (this._helping) {
      if (event.key === "Escape" || event.key === "?") this._help(false);
      return;
    }
    if (target.matches("input:not([type=checkbox]), select, textarea")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (event.key === "?") this._help(true);
    else if (event.key === "/") this._main.querySelector("[data-search]")?.focus();
    else if (!this._view.onKey(event)) return;
    event.preventDefault();
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // no escape of ours: there is no such session
  }
}

function storage() {
  try {
    return window.localStorage;
  } catch {
    return null; // forbidden by the browser
  }
}

function theme() {
  const kept = storage()?.getItem("foldstream.theme");
  return THEMES.includes(kept) ? kept : "auto";
}

function setTheme(name) {
  storage()?.setItem("foldstream.theme", name);
  document.documentElement.dataset.theme = name;
}

new App(document.getElementById("page")).start();
