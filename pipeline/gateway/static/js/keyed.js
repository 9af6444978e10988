/**
 * What a client holds of the sessions it watches: the keyed store, by the rules of `keyed.py`.
 *
 * A row counts iff (epoch, rev) is higher than what is held, an overview also if equal, text iff it
 * goes on where its block ends. Rows are values: one that did not change stays the very same object,
 * so a view renders what is not identical to what it rendered. `version` rises with every change,
 * `structure` when rows came, went, moved, or took another status.
 */

import { anchor, equal, lengthened, order, stepped } from "./stepping.js";

export { lengthened, order, stepped };

export class KeyedSession {
  constructor() {
    this.epoch = null;
    this.generation = 0; // rises when what is held becomes void: later replies are late
    this.overview = null;
    this.surface = null;
    this.hasMore = false;
    /** Keys whose text did not fit, and the revision to be reached: fetch them, then `fetched`. */
    this.wanted = new Map();
    this.version = 0;
    this.structure = 0;
    /** A part of the history apart from the tail: `{first, before, hasMore}`, in seqs. */
    this.window = null;
    this._rows = new Map();
    this._floor = null; // the anchor of the oldest row of the tail
    this._tail = null; // sorted, made when asked for
    this._part = null;
  }

  /** The tail of the transcript as far as its pages are held, in order. */
  get rows() {
    this._tail ??= this._select((row) => !this.hasMore || !this._floor || order(row, this._floor) >= 0);
    return this._tail;
  }

  /** The rows of `window`; those of the tail when there is none. */
  get windowRows() {
    if (!this.window) return this.rows;
    const { first, before } = this.window;
    this._part ??= this._select((row) => row.anchor_seq >= first && row.anchor_seq < before);
    return this._part;
  }

  row(key) {
    return this._rows.get(key);
  }

  /** Take in a frame about this session; whether anything changed. */
  apply(frame) {
    if (frame.t === "snapshot") return this._replace(frame);
    const take = TAKE[frame.t];
    return take && this._enter(frame.epoch) ? this._changed(take.call(this, frame)) : false;
  }

  /** A `wanted` row as the server holds it, and the generation it was asked for in. */
  fetched(row, generation) {
    if (!row || generation !== this.generation || row.epoch !== this.epoch) return false;
    return this._changed(this._upsert(row));
  }

  /** The page above those held; false: it is late, so void. */
  older(rows, generation, hasMore) {
    if (generation !== this.generation || !this._floor || !this.hasMore) return false;
    if (rows.some((row) => row.epoch !== this.epoch)) return false;
    rows.forEach((row) => this._upsert(row));
    for (const row of rows) if (order(row, this._floor) < 0) this._floor = anchor(row);
    this.hasMore = hasMore;
    return this._moved();
  }

  /** The seq below which the next page above begins; null: there is none. */
  get before() {
    return this.hasMore && this._floor ? this._floor.anchor_seq : null;
  }

  /**
   * A page `{first, before, rows, has_more}` of some other place: it becomes the window, or is put
   * before or behind it where they touch. A window that reaches the tail becomes part of it.
   */
  elsewhere(page, generation) {
    if (generation !== this.generation || page.epoch !== this.epoch) return false;
    page.rows.forEach((row) => this._upsert(row));
    const held = this.window;
    const before = page.before ?? Infinity;
    if (held && page.first <= held.before && before >= held.first) {
      const lower = page.first < held.first;
      this.window = {
        first: Math.min(page.first, held.first),
        before: Math.max(before, held.before),
        hasMore: lower ? page.has_more : held.hasMore,
      };
    } else {
      this.window = { first: page.first, before, hasMore: page.has_more };
    }
    this._merge();
    return this._moved();
  }

  /** Back to the tail. */
  toTail() {
    if (!this.window) return false;
    this.window = null;
    return this._moved();
  }

  /** The overview out of a snapshot of all sessions; null: it is not among them. */
  told(overview) {
    if (overview && overview.epoch !== this.epoch) this._clear(overview.epoch);
    // Of other topics it may come again, in a lower epoch.
    if (!overview && !this._rows.size && !this.surface) this.epoch = null;
    this.overview = overview;
    this.version += 1;
  }

  // --- within

  _merge() {
    const tail = this.hasMore && this._floor ? this._floor.anchor_seq : 0;
    if (this.window.before < tail) return;
    if (this.window.first < tail) {
      this._floor = { anchor_seq: this.window.first, anchor_rank: -Infinity, key: "" };
      this.hasMore = this.window.hasMore;
    }
    this.window = null;
  }

  _enter(epoch) {
    if (this.epoch === null || epoch > this.epoch) this._clear(epoch);
    return epoch === this.epoch;
  }

  _clear(epoch) {
    this.generation += 1;
    this.epoch = epoch;
    this.overview = this.surface = this._floor = this.window = null;
    this.hasMore = false;
    this.wanted.clear();
    this._rows = new Map();
    this._moved();
  }

  _replace(frame) {
    if (frame.epoch !== this.epoch) this._clear(frame.epoch);
    this.generation += 1;
    this.version += 1;
    this.overview = frame.overview ?? this.overview;
    this.surface = frame.surface ?? this.surface;
    if (!frame.rows) return true;
    const held = this._rows;
    this._rows = new Map();
    this._floor = null;
    for (const row of frame.rows) {
      const before = held.get(row.key);
      this._rows.set(row.key, before && equal(before, row) ? before : row);
      if (!this._floor || order(row, this._floor) < 0) this._floor = anchor(row);
    }
    this.wanted.clear();
    this.window = null;
    this.hasMore = Boolean(frame.has_more);
    return this._moved();
  }

  _upsert(row) {
    const held = this._rows.get(row.key);
    if (held && row.rev <= held.rev) return false;
    this._put(row, held);
    return true;
  }

  _put(row, held) {
    this._rows.set(row.key, row);
    if (row.rev >= (this.wanted.get(row.key) ?? -1)) this.wanted.delete(row.key);
    if (!held || held.deleted || row.deleted || order(held, row) !== 0) return this._place(row, held);
    swap(this._tail, row);
    swap(this._part, row);
    // Who shows only some rows looks again when one begins or ends to be of those.
    if (held.visibility !== row.visibility || held.data?.status !== row.data?.status) this.structure += 1;
  }

  /** A row that came, went or moved. At the end, which is usual, nothing is sorted again. */
  _place(row, held) {
    this.structure += 1;
    const last = this._tail?.at(-1);
    const newest = !held && !row.deleted && last && order(last, row) < 0;
    if (newest) this._tail.push(row);
    else this._tail = null;
    this._part = null;
  }

  _append(frame) {
    const held = this._rows.get(frame.key);
    if (held && frame.rev <= held.rev) return false;
    const longer = held && !this.wanted.has(frame.key) ? lengthened(held, frame) : null;
    if (!longer) {
      this.wanted.set(frame.key, Math.max(frame.rev, this.wanted.get(frame.key) ?? -1));
      return false;
    }
    this._put(longer, held);
    return true;
  }

  _overview(frame) {
    const held = this.overview;
    if (held && (frame.overview.seq < held.seq || equal(frame.overview, held))) return false;
    this.overview = frame.overview;
    return true;
  }

  _surface(frame) {
    const surface = this.surface ?? { generation: 0, as_of_seq: -1, nodes: [] };
    if (frame.seq <= surface.as_of_seq) return false;
    this.surface = stepped(surface, frame.change);
    return true;
  }

  _select(fits) {
    const rows = [...this._rows.values()].filter((row) => !row.deleted && fits(row));
    return rows.sort(order);
  }

  _moved() {
    this._tail = this._part = null;
    this.structure += 1;
    this.version += 1;
    return true;
  }

  _changed(changed) {
    if (changed) this.version += 1;
    return changed;
  }
}

const TAKE = {
  row(frame) {
    return this._upsert(frame.row);
  },
  append: KeyedSession.prototype._append,
  overview: KeyedSession.prototype._overview,
  surface: KeyedSession.prototype._surface,
};

/** All the sessions of one client; they appear with their first frame. */
export class KeyedStore {
  constructor() {
    this.sessions = new Map();
  }

  session(name) {
    let found = this.sessions.get(name);
    if (!found) this.sessions.set(name, (found = new KeyedSession()));
    return found;
  }

  /** Take in a frame; the session that changed ("" for all), null if nothing did. */
  apply(frame) {
    if (frame.t === "snapshot" && frame.session === "") {
      const told = new Map(frame.overviews.map((each) => [each.session, each]));
      for (const name of new Set([...this.sessions.keys(), ...told.keys()]))
        this.session(name).told(told.get(name) ?? null);
      return "";
    }
    const name = frame.session;
    if (!name || frame.epoch === undefined) return null;
    return this.session(name).apply(frame) ? name : null;
  }
}

/** Put `row` in the place of the one that stands where it does, if there is one. */
function swap(rows, row) {
  if (!rows) return;
  let [low, high] = [0, rows.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const by = order(rows[middle], row);
    if (by === 0) {
      rows[middle] = row;
      return;
    }
    if (by < 0) low = middle + 1;
    else high = middle - 1;
  }
}
