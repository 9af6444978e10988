/** What the model sees now, or saw at any seq, and how it differs: the data of the view beside. */
import { Client } from "./client.js";

export class ModelView {
  constructor(session) {
    this.session = session;
    this.open = false;
    this.at = null; // null: now
    this.surface = null;
    this.since = null; // what came and went since `at`
    this.stops = []; // seqs just before each compaction
    this.failed = null;
    this.loading = false;
    this._marks = { first: 0, marks: "" };
    this._run = 0;
  }

  toggle() {
    this.open = !this.open;
    if (this.open) this.load();
    this.session.app.changed();
  }

  /** As it was after `seq`; null: now. */
  look(seq) {
    this.open = true;
    this.at = seq;
    this.load();
  }

  async load() {
    const run = (this._run += 1);
    const { session, at } = this;
    const get = (query, ...path) => session.client.get(Client.of(session.id, ...path), query);
    const end = session.overview?.next_seq ?? 0;
    this.loading = true;
    session.app.changed();
    try {
      const [surface, changes, marks, since] = await Promise.all([
        get({ at }, "surface"),
        this._changesUntil(end),
        get({ at }, "classification"),
        at === null ? null : session.client.get(`${Client.of(session.id, "surface")}/diff`, { from: at, to: Math.max(at, end) }),
      ]);
      if (run !== this._run) return;
      this.surface = surface;
      this.stops = stopsOf(changes);
      this._marks = marks;
      this.since = since;
      this.failed = null;
    } catch (error) {
      if (run !== this._run) return;
      this.failed = error.message;
    }
    this.loading = false;
    session.app.changed();
  }

  /** Every replacement there was; asked for again only when there was another. */
  async _changesUntil(end) {
    const { session } = this;
    const { epoch, generation } = session.overview ?? {};
    const known = `${epoch}/${generation}`;
    if (this._known !== known) {
      this._changes = await session.client.get(`${Client.of(session.id, "surface")}/diff`, { from: 0, to: end });
      this._known = known;
    }
    return this._changes;
  }

  /** A key of `MARKS` for a row that is about event `seq` (null: none); null while not known. */
  mark(row, seq) {
    if (this.at !== null && (seq ?? row.anchor_seq) > this.at) return "later";
    if (seq === null) return "-";
    const { first, marks } = this._marks;
    return marks[seq - first] ?? null;
  }

  /** Which stop the view is at; `stops.length` is now. */
  get stop() {
    if (this.at === null) return this.stops.length;
    const next = this.stops.findIndex((seq) => seq >= this.at);
    return next < 0 ? this.stops.length : next;
  }

  toStop(index) {
    this.look(index >= this.stops.length ? null : this.stops[index]);
  }
}

/** Just before each checkpoint: prunes and regenerated messages replace too, but compact nothing. */
function stopsOf({ came, passed }) {
  const landed = [...came, ...passed].filter((node) => node.op === "replace" && node.type === "user/message");
  return landed.map((node) => node.seq - 1).sort((a, b) => a - b);
}
