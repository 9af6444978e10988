/** One session: its history and what comes live, what is open and selected, and where one is. */
import { Client, LIVE, RECONNECTING, REFUSED } from "./client.js";
import { KeyedStore } from "./keyed.js";
import { ModelView } from "./model.js";
import { isShown, nodeSeq } from "./rows.js";

const NONE = new Set();
const PAUSE = 3_000; // ms after a page that could not be read
const QUIET = 1_000; // ms between two looks at a surface that goes on changing

export class Session {
  /** `app` offers `client`, `changed()`, `now()`. `seq`: what to begin at; null: the newest. */
  constructor(app, id, seq) {
    this.app = app;
    this.id = id;
    this.client = app.client;
    this.store = new KeyedStore();
    this.keyed = this.store.session(id);
    this.live = null;
    this.stream = { state: "connecting" };
    this.failed = null;
    this.everything = false;
    this.only = "all";
    this.selected = null;
    this.wantedSeq = seq;
    this.found = null; // hits of a search within
    this.model = new ModelView(this);
    this.loading = false;
    this.reading = null; // the seq at the top of what is seen; null: the end is followed
    this._pageAfter = 0;
    this._open = new Map();
    this._bodies = new Map();
    this._touched = new Map();
    this._shown = { structure: -1, rows: [] };
    this._closed = false;
  }

  get overview() {
    return this.keyed.overview;
  }

  async start() {
    try {
      const page = await this.client.get(Client.of(this.id, "transcript"));
      if (this._closed) return;
      this.store.apply({ ...page, t: "snapshot", session: this.id, surface: null });
      this._follow(page.cursor);
      if (this.wantedSeq !== null) await this.goTo(this.wantedSeq);
    } catch (error) {
      if (this._closed) return;
      this.failed = error;
      // A session that begins, or a gateway that begins, has not come to it yet: it will be there.
      const passes = error.status === 0 || error.status === 404 || error.status >= 500;
      if (passes) this._retry = setTimeout(() => this.start(), 2_000);
    }
    this.app.changed();
  }

  close() {
    this._closed = true;
    clearTimeout(this._retry);
    clearTimeout(this._surfaceTimer);
    this.live?.stop();
  }

  wake() {
    this.live?.wake();
  }

  _follow(cursor) {
    this.failed = null;
    this.live = this.client.live({ sessions: [this.id], cursor, store: this.store });
    this.live.onchange = (_, frame) => {
      if (frame?.t === "overview" || frame?.t === "snapshot") this._surfaceMoved();
      // What was held is void: where the reader is has to be fetched again.
      if (frame?.t === "snapshot" && this.reading !== null) this.goTo(this.reading);
      this.app.changed();
    };
    this.live.onstate = (state) => {
      this.stream = state;
      this.app.changed();
    };
    this.live.start();
  }

  // --- rows

  /** The rows that are shown; the same array while none came, went or moved. */
  get rows() {
    const { structure, windowRows } = this.keyed;
    const asked = `${structure}/${this.everything}/${this.only}`;
    if (this._shown.asked !== asked) {
      this._shown = { asked, rows: windowRows.filter((row) => isShown(row, this.everything) && ONLY[this.only](row)) };
    }
    return this._shown.rows;
  }

  /** A row as it is now: positions outlive versions. */
  now(row) {
    return this.keyed.row(row.key) ?? row;
  }

  get atTail() {
    return this.keyed.window === null;
  }

  get hasOlder() {
    return this.keyed.window ? this.keyed.window.hasMore : this.keyed.hasMore;
  }

  /** The page above; one at a time. */
  async older() {
    const { window, before } = this.keyed;
    if (!this.hasOlder) return;
    await this._page({ before: window ? window.first : before }, (page, generation) =>
      window
        ? this.keyed.elsewhere(page, generation)
        : this.keyed.older(page.rows, generation, page.has_more),
    );
  }

  /** The page below, where the history shown does not reach the tail yet. */
  async newer() {
    const { window } = this.keyed;
    if (window) await this._page({ after: window.before - 1 }, (page, generation) => this.keyed.elsewhere(page, generation));
  }

  async _page(query, take) {
    if (this.loading || this.app.now() < this._pageAfter) return;
    this.loading = true;
    await this._fetch(query, take);
    this.loading = false;
    if (this.failed) this._pageAfter = this.app.now() + PAUSE;
  }

  async _fetch(query, take) {
    const { generation } = this.keyed;
    try {
      take(await this.client.get(Client.of(this.id, "transcript"), query), generation);
      this.failed = null;
    } catch (error) {
      this.failed = error;
    }
    this.app.changed();
  }

  /** Select the row that an event belongs to, with its history around it. */
  async goTo(seq) {
    const run = (this._jump = (this._jump ?? 0) + 1);
    let row = this.rowAt(seq);
    if (!row) {
      await this._fetch({ around: seq }, (page, generation) => this.keyed.elsewhere(page, generation));
      if (run !== this._jump) return; // the reader has gone on elsewhere
      row = this.rowAt(seq) ?? this.rows.find((each) => each.anchor_seq >= seq) ?? this.rows.at(-1);
    }
    if (row) {
      if (!isShown(row, this.everything)) this.everything = true;
      if (!ONLY[this.only](row)) this.only = "all";
      this.select(row.key, "top");
    }
  }

  /** The row that an event made or settled, if it is held. */
  rowAt(seq) {
    const rows = this.keyed.windowRows;
    const own = rows.find((row) => row.anchor_seq === seq && row.kind !== "turn") ?? rows.find((row) => nodeSeq(row) === seq);
    if (own) return own;
    const first = rows[0]?.anchor_seq ?? Infinity;
    if (seq < first && !this.hasOlder) return rows[0] ?? null;
    if (seq < first || (seq > (rows.at(-1)?.anchor_seq ?? -1) && !this.atTail)) return null;
    return rows.findLast((row) => row.anchor_seq <= seq) ?? null;
  }

  /** Show what took the place of a node that is shadowed. */
  async toReplacement(seq) {
    try {
      const { chain } = await this.client.get(`${Client.of(this.id, "query")}/trace`, { at: seq });
      if (!chain.length) return;
      this.app.say(`#${seq} was replaced by ${chain.map((each) => `#${each}`).join(", then ")}`);
      await this.goTo(chain[0]);
    } catch (error) {
      this.app.say(error.message);
    }
  }

  toTail() {
    this.keyed.toTail();
    this.selected = null;
    this.scrollTo = "end";
    this.app.changed();
  }

  /** `how`: what the list does about it: "near", "top", null. */
  select(key, how = null) {
    if (this.selected === key && !how) return;
    this.selected = key;
    if (how) this.scrollTo = { key, how };
    this.app.changed();
  }

  get selectedRow() {
    return this.selected === null ? null : (this.keyed.row(this.selected) ?? null);
  }

  link(row) {
    return link(this.id, row.anchor_seq);
  }

  // --- what is open, and bodies that were left out

  isOpen(row, part, unlessTold = false) {
    const open = this._open.get(row.key) ?? NONE;
    return open.has(part) || (unlessTold && !open.has(`not:${part}`));
  }

  /** `isNow`: as `isOpen` answered, where parts can be open without having been opened. */
  toggle(row, part, isNow = this.isOpen(row, part)) {
    const open = new Set(this._open.get(row.key));
    open.delete(isNow ? part : `not:${part}`);
    open.add(isNow ? `not:${part}` : part);
    this._open.set(row.key, open);
    this.app.changed();
  }

  body(ref) {
    return this._bodies.get(ref);
  }

  async fetchBody(row, ref) {
    this._setBody(row, ref, { asked: true });
    try {
      this._setBody(row, ref, { value: await this.client.get(Client.of(this.id, "bodies", ref)) });
    } catch (error) {
      this._setBody(row, ref, { failed: error.message });
    }
  }

  _setBody(row, ref, body) {
    this._bodies.set(ref, body);
    this._touched.set(row.key, {});
    this.app.changed();
  }

  /** All that a row's looks depend on besides the row: identical while it need not be rendered. */
  looks(row) {
    return [this._open.get(row.key), this._touched.get(row.key)];
  }

  // --- the model's view

  /** The surface may have moved: whoever shows it looks again, not more than once in a while. */
  _surfaceMoved() {
    const { generation, surface_nodes, epoch } = this.overview ?? {};
    const moved = `${epoch}/${generation}/${surface_nodes}`;
    if (!this.model.open || moved === this._surfaceAt || this._surfaceTimer) return;
    this._surfaceTimer = setTimeout(() => {
      this._surfaceTimer = null;
      this._surfaceAt = moved;
      if (this.model.open) this.model.load();
    }, QUIET);
  }

  /** What a person should know about how fresh this is; null: it is live. */
  get stale() {
    const { state, since, why, status } = this.stream;
    if (state === LIVE) return null;
    if (state === RECONNECTING) return { since, text: "reconnecting" };
    if (state === REFUSED) return { since, text: status === 404 ? "not live" : `not live: ${why}` };
    return { since: null, text: "connecting" };
  }
}

export const link = (id, seq = null) => `#/s/${encodeURIComponent(id)}${seq === null ? "" : `/${seq}`}`;

/** What can be asked for alone. */
export const ONLY = {
  all: () => true,
  messages: (row) => ["user", "steering", "assistant", "turn-error", "compaction", "command"].includes(row.kind),
  tools: (row) => row.kind === "tool",
  errors: (row) =>
    ["turn-error", "max-tokens", "retry", "gap"].includes(row.kind) ||
    (row.kind === "tool" && row.data?.status === "error") ||
    ["failed", "stale"].includes(row.data?.status),
};
