/** All sessions: what is listed by the server, kept up to date by the stream of overviews. */
import { RECONNECTING, REFUSED } from "./client.js";

const AGAIN = 4_000; // ms between two readings of the list because sessions came
export const SORTS = ["activity", "created", "title", "tokens", "errors", "compactions"];

export class Dashboard {
  /** `asked`: `{q, state, sort, order}` out of the address. */
  constructor(app, asked) {
    this.app = app;
    this.asked = asked;
    this.listed = [];
    this.next = null;
    this.counts = null;
    this.status = null;
    this.failed = null;
    this.selected = null;
    this._run = 0;
    this._timer = null;
  }

  start() {
    this.load();
  }

  close() {
    clearTimeout(this._timer);
    this._run += 1;
  }

  /** Other questions: the list is read anew. */
  ask(asked) {
    this.asked = asked;
    this.load();
  }

  async load() {
    const run = (this._run += 1);
    clearTimeout(this._timer);
    this._timer = null;
    await this._read(run, { limit: Math.max(100, Math.min(500, this.listed.length)) }, (page) => page.sessions);
  }

  async more() {
    if (!this.next) return;
    await this._read(this._run, { after: this.next }, (page) => [...this.listed, ...page.sessions]);
  }

  async _read(run, query, take) {
    const { q, state, sort, order } = this.asked;
    try {
      const page = await this.app.client.get("/v1/sessions", { q, state, sort, order, limit: 100, ...query });
      if (run !== this._run) return;
      this.listed = take(page);
      this.next = page.next;
      this.counts = page.counts;
      this.status = page.status;
      this.failed = null;
    } catch (error) {
      if (run !== this._run) return;
      this.failed = error;
      if (error.status === 0 || error.status >= 500) this._later(2_000);
    }
    this.app.changed();
  }

  /** A session's overview was told; one that is not listed yet may belong there. */
  told(session) {
    if (session === "" || !this._names?.has(session)) this._later(AGAIN);
  }

  _later(ms) {
    this._timer ??= setTimeout(() => this.load(), ms);
  }

  /** Overviews in the order of the list, each the newest that is known. */
  get rows() {
    this._names = new Set(this.listed.map(({ session }) => session));
    return this.listed.map((listed) => {
      const told = this.app.live.store.sessions.get(listed.session)?.overview;
      return told && (told.epoch > listed.epoch || (told.epoch === listed.epoch && told.seq >= listed.seq)) ? told : listed;
    });
  }

  /** What a person should know about how fresh this is; null: it is live. */
  get stale() {
    const { state, since, why } = this.app.live.state;
    if (this.status && ["starting", "catching-up"].includes(this.status.state)) {
      return { since: null, text: `reading history, ${this.status.done} of ${this.status.total}` };
    }
    if (this.status?.state === "stale") return { since: this.status.stale_since, text: this.status.why ?? "not live" };
    if (state === RECONNECTING) return { since, text: "reconnecting" };
    if (state === REFUSED) return { since, text: `not live: ${why}` };
    return state === "live" ? null : { since: null, text: "connecting" };
  }
}

/** An address of the dashboard, and back. */
export function address({ q = "", state = [], sort = "activity", order = "desc" }) {
  const query = new URLSearchParams();
  if (q) query.set("q", q);
  for (const each of state) query.append("state", each);
  if (sort !== "activity") query.set("sort", sort);
  if (order !== "desc") query.set("order", order);
  return query.size ? `#/?${query}` : "#/";
}

export function read(text) {
  const query = new URLSearchParams(text);
  const sort = query.get("sort");
  return {
    q: query.get("q") ?? "",
    state: query.getAll("state"),
    sort: SORTS.includes(sort) ? sort : "activity",
    order: query.get("order") === "asc" ? "asc" : "desc",
  };
}
