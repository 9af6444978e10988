/** What was read of each session, kept in this browser: it survives a restart, and leaves nothing. */
import { seenRows } from "./states.js";

const NAME = "foldstream.read";
const MOST = 2_000; // sessions remembered

export class Unread {
  constructor(storage) {
    this._storage = storage;
    try {
      this._read = JSON.parse(storage?.getItem(NAME)) ?? {};
    } catch {
      this._read = {};
    }
    // Nothing that was there before the first visit is new.
    this._read.since ??= Date.now();
    this._read.sessions ??= {};
  }

  /** New rows of a session; null: none. One that was never opened is new if it was active since. */
  of(overview) {
    const seen = this._read.sessions[overview.session];
    const rows = seenRows(overview);
    if (!seen) return (overview.last_time ?? 0) > this._read.since ? rows || null : null;
    if (seen[0] !== overview.epoch) return rows || null;
    return Math.max(0, rows - seen[1]) || null;
  }

  /** All of it was seen. */
  read(overview) {
    const rows = seenRows(overview);
    const seen = this._read.sessions[overview.session];
    if (seen && seen[0] === overview.epoch && seen[1] === rows) return;
    delete this._read.sessions[overview.session]; // it moves to the end: the oldest are forgotten
    this._read.sessions[overview.session] = [overview.epoch, rows];
    const names = Object.keys(this._read.sessions);
    for (const name of names.slice(0, Math.max(0, names.length - MOST))) delete this._read.sessions[name];
    this._save();
  }

  _save() {
    try {
      this._storage?.setItem(NAME, JSON.stringify(this._read));
    } catch {
      // Storage is full or forbidden: it is forgotten when the tab closes.
    }
  }
}
