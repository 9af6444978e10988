/**
 * The gateway's client for JavaScript: history by HTTP, then live by Server-Sent Events, into a
 * keyed store. No dependency, no build; it runs in browsers and in Node 20 or newer.
 *
 *     import { Client } from "./client.js";
 *
 *     const client = new Client("http://127.0.0.1:8080");
 *     const live = client.live({ sessions: ["a", "b"] });
 *     live.onchange = (session) => {
 *       const { overview, rows } = live.store.session(session);
 *       console.log(overview?.title, rows.length, rows.at(-1)?.kind);
 *     };
 *     live.onstate = ({ state, why }) => console.log(state, why ?? "");
 *     live.start(); // later: live.stop()
 *
 * Whatever is lost, doubled, late or cut off on the way, the store ends equal to the server: frames
 * are keyed upserts (`keyed.js`), the stream goes on from its cursor, text that does not fit makes
 * the row be fetched.
 */

import { KeyedStore } from "./keyed.js";
import { events } from "./sse.js";

export { KeyedSession, KeyedStore } from "./keyed.js";

/** An answer that is none: `status` as HTTP has it (0: nobody answered), `message` for a person. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class Client {
  /** `token`: sent as a bearer token; without one the browser's cookie is. */
  constructor(base = "", { token = null, fetch = globalThis.fetch.bind(globalThis) } = {}) {
    this.base = base;
    this._headers = token ? { Authorization: `Bearer ${token}` } : {};
    this._fetch = fetch;
  }

  /** GET a path with a query (arrays repeat; null and undefined are left out). Throws `Refused`. */
  async get(path, query = {}, { signal } = {}) {
    return (await this.request(path + asQuery(query), { signal })).json();
  }

  async request(path, { headers, ...options } = {}) {
    let answer;
    try {
      answer = await this._fetch(this.base + path, { ...options, headers: { ...this._headers, ...headers } });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, "the gateway does not answer");
    }
    if (answer.ok) return answer;
    const problem = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, problem.detail ?? `the gateway answers ${answer.status}`);
  }

  /** The path of a session: `of("a b", "rows", key)` is "/v1/sessions/a%20b/rows/…". */
  static of(session, ...rest) {
    return ["/v1/sessions", session, ...rest].map((part, at) => (at ? encodeURIComponent(part) : part)).join("/");
  }

  /** A stream of `sessions` (none: the overviews of all), not started yet. */
  live(options = {}) {
    return new Live(this, options);
  }
}

/** What a `Live` is at: `onstate` is told. */
export const CONNECTING = "connecting"; // for the first time
export const LIVE = "live";
export const RECONNECTING = "reconnecting"; // what is held is as of `since`
export const REFUSED = "refused"; // it would be in vain to ask again: `why`, `status`
export const ENDED = "ended";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
const SILENCE = 3; // pings missed

export class Live {
  /**
   * `sessions`, `view` as `GET /v1/stream` has them; `cursor`: of what `store` holds already.
   * `timers`: `{now, later, cancel}`, for tests.
   */
  constructor(client, { sessions = [], view = "transcript", cursor = null, store = new KeyedStore(), timers = TIMERS } = {}) {
    this.client = client;
    this.store = store;
    this.cursor = cursor;
    this.onchange = () => {};
    this.onstate = () => {};
    this.onframe = () => {};
    this.state = { state: CONNECTING };
    this._query = sessions.length ? { session: sessions, view } : {};
    this._path = sessions.length ? "/v1/stream" : "/v1/overview/stream";
    this._timers = timers;
    this._ping = 15;
    this._failures = 0;
    this._heard = 0;
    this._stopped = true;
    this._run = 0; // which connection: what an older one still says is void
    this._asked = new Set();
  }

  start() {
    this.stop();
    this._stopped = false;
    this.state = this._heard ? { state: RECONNECTING, since: this._heard } : { state: CONNECTING };
    this._connect();
    return this;
  }

  /** What is held stays; `start` goes on from there. */
  stop() {
    this._stopped = true;
    this._run += 1;
    this._abort?.abort();
    this._timers.cancel(this._timer);
    this._timers.cancel(this._watch);
  }

  /** Connect again now if nothing was heard for a while: after sleep, a frozen tab, a new network. */
  wake() {
    if (this._stopped) return;
    const { state } = this.state;
    const silent = this._timers.now() - this._heard > this._ping * 1000 * 1.5;
    if (state === RECONNECTING || (state === LIVE && silent)) this.start();
  }

  async _connect() {
    const run = (this._run += 1);
    this._abort = new AbortController();
    this._heard = this._timers.now();
    this._guard(run);
    let wait = null;
    try {
      const headers = { Accept: "text/event-stream", ...(this.cursor ? { "Last-Event-ID": this.cursor } : {}) };
      const path = this._path + asQuery(this._query);
      const answer = await this.client.request(path, { headers, signal: this._abort.signal, cache: "no-store" });
      for await (const event of events(answer.body)) {
        if (run !== this._run) return;
        const bye = this._take(event);
        if (bye) {
          if (bye.retry_ms === null) return this._tell(ENDED, bye.code);
          wait = bye.retry_ms;
          break;
        }
      }
    } catch (error) {
      if (run !== this._run) return;
      if (this._final(error)) return;
    }
    if (run === this._run) this._again(wait);
  }

  _take({ data, id }) {
    this._heard = this._timers.now();
    const frame = JSON.parse(data);
    if (id !== null) this.cursor = id || null;
    this.onframe(frame);
    switch (frame.t) {
      case "hello":
        this._ping = frame.ping_s;
        break;
      case "cursor":
      case "resync":
        this.cursor = frame.cursor;
        break;
      case "bye":
        return frame;
      case "problem":
        this._problem(frame);
        break;
      case "ping":
        for (const name of this.store.sessions.keys()) this._fetchWanted(name);
        break;
      default:
        this._failures = 0;
        if (this.state.state !== LIVE) this._tell(LIVE);
        this._apply(frame);
    }
    return null;
  }

  _apply(frame) {
    if (frame.t === "snapshot") this.cursor = null; // what was held is of another moment
    const changed = this.store.apply(frame);
    if (changed !== null) this.onchange(changed, frame);
    if (frame.t === "append") this._fetchWanted(frame.session);
  }

  _problem(frame) {
    if (frame.code === "future" || frame.code === "cursor") {
      this.cursor = null;
      this.start();
    } else {
      this._tell(REFUSED, frame.message, frame.code);
    }
  }

  /** Rows whose text did not fit. One that is not there yet is asked for again when more of it comes. */
  async _fetchWanted(name) {
    const session = this.store.session(name);
    const { generation } = session;
    let again = false;
    for (const [key, rev] of session.wanted) {
      const asking = JSON.stringify([name, key]);
      if (this._asked.has(asking)) continue;
      this._asked.add(asking);
      try {
        const row = await this.client.get(Client.of(name, "rows", key));
        if (session.fetched(row, generation)) this.onchange(name, null);
        // More of it came while it was asked for, which the reply may not hold yet.
        if ((session.wanted.get(key) ?? rev) > rev) again = true;
      } catch {
        // Gone or not there yet: the next frame of the row asks again, a snapshot settles it.
      } finally {
        this._asked.delete(asking);
      }
    }
    if (again && !this._stopped) await this._fetchWanted(name);
  }

  /** Whether a refusal is the last word. A cursor that is refused is given up once. */
  _final(error) {
    if (error.status === 400 && this.cursor) {
      this.cursor = null;
      return false;
    }
    const last = [400, 401, 403, 404, 421].includes(error.status);
    if (last) this._tell(REFUSED, error.message, error.status);
    return last;
  }

  _again(wait) {
    this._timers.cancel(this._watch);
    const grown = Math.min(FIRST_WAIT * 2 ** this._failures, LONGEST_WAIT);
    this._failures += 1;
    if (this.state.state !== RECONNECTING) this._tell(RECONNECTING);
    this._timer = this._timers.later(() => this._connect(), wait ?? grown * (0.75 + Math.random() / 2));
  }

  /** Cut a connection off that says nothing any more. */
  _guard(run) {
    this._timers.cancel(this._watch);
    this._watch = this._timers.later(() => {
      if (run !== this._run) return;
      if (this._timers.now() - this._heard > this._ping * 1000 * SILENCE) {
        this._run += 1;
        this._abort.abort();
        this._again(0);
      } else {
        this._guard(run);
      }
    }, this._ping * 1000);
  }

  _tell(state, why = null, status = null) {
    if (state === REFUSED || state === ENDED) this.stop();
    this.state = { state, why, status, since: this._heard };
    this.onstate(this.state);
  }
}

const TIMERS = {
  now: () => Date.now(),
  later: (call, ms) => setTimeout(call, ms),
  cancel: (timer) => clearTimeout(timer),
};

function asQuery(query) {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => [name, each]),
  );
  const given = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
