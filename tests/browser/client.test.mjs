/** The stream of the page's client, against a server made of strings and a clock made of numbers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, ENDED, LIVE, RECONNECTING, REFUSED } from "../../pipeline/gateway/static/js/client.js";
import { Parser } from "../../pipeline/gateway/static/js/sse.js";
import { clip, line, pretty, visible } from "../../pipeline/gateway/static/js/text.js";
import { age, between, duration, short } from "../../pipeline/gateway/static/js/format.js";

const settled = () => new Promise((done) => setImmediate(() => setImmediate(done)));

/** Timers that fire when told. */
class Clock {
  time = 1_000;
  waiting = new Map();
  next = 0;
  now = () => this.time;
  later = (call, ms) => (this.waiting.set((this.next += 1), { call, at: this.time + ms }), this.next);
  cancel = (timer) => this.waiting.delete(timer);
  async pass(ms) {
    const end = this.time + ms;
    for (;;) {
      const due = [...this.waiting].filter(([, { at }]) => at <= end).sort((a, b) => a[1].at - b[1].at)[0];
      if (!due) break;
      this.waiting.delete(due[0]);
      this.time = due[1].at;
      due[1].call();
      await settled();
    }
    this.time = end;
  }
}

/** Answers requests one after the other: a status, or a stream that the test writes to. */
class Server {
  asked = [];
  streams = [];
  refuse = [];
  rows = {};
  fetch = async (url, { headers, signal }) => {
    this.asked.push({ url, headers });
    if (url.includes("/rows/")) {
      const row = this.rows[decodeURIComponent(url.split("/").at(-1))];
      return new Response(JSON.stringify(row ?? {}), { status: row ? 200 : 404 });
    }
    const status = this.refuse.shift();
    if (status === 0) throw new TypeError("fetch failed");
    if (status) return new Response(JSON.stringify({ detail: `told ${status}` }), { status });
    let control;
    const body = new ReadableStream({ start: (given) => (control = given) });
    signal.addEventListener("abort", () => {
      try { control.error(signal.reason); } catch { /* closed */ }
    });
    this.streams.push(control);
    return new Response(body, { status: 200 });
  };
  async say(frame, id) {
    const text = `${id ? `id: ${id}\n` : ""}event: ${frame.t}\ndata: ${JSON.stringify(frame)}\n\n`;
    this.streams.at(-1).enqueue(new TextEncoder().encode(text));
    await settled();
  }
  async cut() {
    this.streams.at(-1).close();
    await settled();
  }
}

const HELLO = { t: "hello", server: "x", queue_frames: 1, queue_bytes: 1, ping_s: 15, v: 1 };
const row = (seq, rev = seq, data = {}) => ({
  key: `user:${seq}`, session: "s", epoch: 0, rev, kind: "user", anchor_seq: seq, anchor_rank: 0, deleted: false, data,
});
const upsert = (each) => ({ t: "row", session: "s", epoch: 0, key: each.key, rev: each.rev, row: each });

function begun(options = {}) {
  const [server, timers, states] = [new Server(), new Clock(), []];
  const client = new Client("http://here", { fetch: server.fetch });
  const live = client.live({ sessions: ["s"], timers, ...options });
  live.onstate = (state) => states.push(state.state);
  live.start();
  return { server, timers, states, live };
}

test("corpus 15: a stream that breaks off goes on from its cursor, and the rows end equal", async () => {
  const { server, timers, states, live } = begun();
  await settled();
  await server.say(HELLO);
  await server.say({ t: "snapshot", session: "s", epoch: 0, reason: "new", rows: [row(1)], has_more: false });
  await server.say(upsert(row(5)), "C5");
  await server.cut();
  await timers.pass(2_000);
  assert.equal(server.asked.at(-1).headers["Last-Event-ID"], "C5");
  await server.say(HELLO);
  await server.say({ t: "replay", session: "s", epoch: 0, frames: 2 });
  await server.say(upsert(row(5)), "C5"); // once more
  await server.say(upsert(row(6)), "C6");
  assert.deepEqual(live.store.session("s").rows.map((each) => each.rev), [1, 5, 6]);
  assert.deepEqual(states, [LIVE, RECONNECTING, LIVE]);
  live.stop();
});

test("a resync goes on from the cursor it names", async () => {
  const { server, timers, live } = begun();
  await settled();
  await server.say(upsert(row(5)), "C5");
  await server.say({ t: "resync", reason: "slow", cursor: "C3" });
  assert.equal(live.cursor, "C3");
  await server.cut();
  await timers.pass(2_000);
  assert.equal(server.asked.at(-1).headers["Last-Event-ID"], "C3");
  live.stop();
});

test("corpus 45: a farewell says when to come again, or not to", async () => {
  const { server, timers, states, live } = begun();
  await settled();
  await server.say(upsert(row(1)), "C1");
  await server.say({ t: "bye", code: "age", retry_ms: 3_000 });
  await timers.pass(2_900);
  assert.equal(server.asked.length, 1);
  await timers.pass(200);
  assert.equal(server.asked.length, 2);
  await server.say({ t: "bye", code: "done", retry_ms: null });
  await timers.pass(100_000);
  assert.equal(server.asked.length, 2);
  assert.equal(states.at(-1), ENDED);
});

test("whoever is refused for good does not ask again; one that is only away is asked again", async () => {
  const { server, timers, states, live } = begun();
  live.stop();
  server.refuse = [503, 0, 401];
  live.start();
  await timers.pass(60_000);
  assert.equal(states.at(-1), REFUSED);
  assert.equal(live.state.status, 401);
  const { length } = server.asked;
  await timers.pass(60_000);
  assert.equal(server.asked.length, length);
});

test("a cursor that is refused is given up", async () => {
  const { server, timers, live } = begun({ cursor: "BAD" });
  live.stop();
  server.refuse = [400];
  server.asked = [];
  live.start();
  await settled();
  await timers.pass(2_000);
  assert.equal(server.asked[0].headers["Last-Event-ID"], "BAD");
  assert.equal(server.asked[1].headers["Last-Event-ID"], undefined);
  await server.say({ t: "problem", code: "future", message: "from the future" });
  assert.equal(live.cursor, null);
  live.stop();
});

test("silence cuts the connection off", async () => {
  const { server, timers, states, live } = begun();
  await settled();
  await server.say(HELLO);
  await server.say(upsert(row(1)), "C1");
  await timers.pass(40_000);
  assert.equal(server.asked.length, 1);
  await timers.pass(30_000);
  assert.equal(server.asked.length, 2);
  assert.equal(server.asked[1].headers["Last-Event-ID"], "C1");
  live.stop();
});

test("a tab that was frozen asks at once when it wakes", async () => {
  const { server, timers, live } = begun();
  await settled();
  await server.say(HELLO);
  await server.say(upsert(row(1)), "C1");
  live.wake();
  assert.equal(server.asked.length, 1); // heard a moment ago
  timers.time += 600_000; // no timer fired meanwhile
  live.wake();
  await settled();
  assert.equal(server.asked.length, 2);
  live.stop();
});

test("text that does not fit makes the row be fetched, once", async () => {
  const { server, live } = begun();
  await settled();
  server.rows["user:5"] = row(5, 9, { blocks: [{ type: "text", text: "abcd" }] });
  const append = { t: "append", session: "s", epoch: 0, key: "user:5", rev: 8, block: 0, block_type: "text", offset: 3, text: "d" };
  await server.say(append);
  await settled();
  assert.equal(live.store.session("s").row("user:5").data.blocks[0].text, "abcd");
  assert.equal(server.asked.filter(({ url }) => url.includes("/rows/")).length, 1);
  live.stop();
});

test("a snapshot voids the cursor that is held", async () => {
  const { server, live } = begun();
  await settled();
  await server.say({ t: "cursor", cursor: "C1" }, "C1");
  assert.equal(live.cursor, "C1");
  await server.say({ t: "snapshot", session: "s", epoch: 0, reason: "epoch", rows: [], has_more: false });
  assert.equal(live.cursor, null);
  live.stop();
});

test("a reply older than what is wanted by then is asked for again", async () => {
  const { server, live } = begun();
  await settled();
  const append = { t: "append", session: "s", epoch: 0, key: "user:5", block: 0, block_type: "text", offset: 3, text: "d" };
  let reply;
  let first = true;
  live.client.get = async () => {
    if (!first) return row(5, 9, { blocks: [{ type: "text", text: "abcde" }] });
    first = false;
    return new Promise((done) => (reply = done));
  };
  await server.say({ ...append, rev: 8 });
  await server.say({ ...append, rev: 9, offset: 4, text: "e" });
  reply(row(5, 8, { blocks: [{ type: "text", text: "abcd" }] }));
  await settled();
  await settled();
  assert.equal(live.store.session("s").row("user:5").data.blocks[0].text, "abcde");
  live.stop();
});

test("events are read out of any pieces", () => {
  const text = ': note\nid: 1\nevent: row\ndata: {"a":\ndata: 1}\n\ndata\r\n\r\nid: 2\rdata: x\r\rdata: cut';
  for (let size = 1; size < text.length; size += 1) {
    const parser = new Parser();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...parser.feed(text.slice(at, at + size)));
    assert.deepEqual(found.map(({ event, data }) => [event, data]), [["row", '{"a":\n1}'], ["message", ""], ["message", "x"]]);
    assert.deepEqual(found.map(({ id }) => id), ["1", "1", "2"]);
  }
});

test("queries repeat arrays and leave out what is not given", async () => {
  const server = new Server();
  const client = new Client("", { fetch: async (url) => (server.asked.push(url), new Response("{}")) });
  await client.get("/v1/sessions", { state: ["idle", "failed"], q: "", after: null, limit: 5 });
  assert.deepEqual(server.asked, ["/v1/sessions?state=idle&state=failed&limit=5"]);
  assert.equal(Client.of("a/b", "rows", "user:1"), "/v1/sessions/a%2Fb/rows/user%3A1");
});

test("what would steer, hide or reorder text is shown by name", () => {
  assert.equal(visible("a\u202eb"), "a<U+202E>b");
  assert.equal(visible("\x1b[31mred\x1b[0m \x1b]0;t\x07"), "red \u241b]0;t\u2407");
  assert.equal(visible("a\ud800b 😀"), "a\ufffdb 😀");
  assert.equal(visible("zero\u200bwidth"), "zero<U+200B>width");
  assert.equal([...visible(`e${"\u0301".repeat(50)}`)].length, 5);
  assert.equal(line(" a\n\n b\t"), "a b");
});

test("text is cut between characters", () => {
  assert.deepEqual(clip("a😀b", 2), ["a", 3]);
  assert.deepEqual(clip("abc", 3), ["abc", 0]);
});

test("JSON is set out, big integers stay as written", () => {
  assert.equal(pretty('{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(pretty('{"a":12345678901234567890}'), '{"a":12345678901234567890}');
  assert.equal(pretty("no json"), "no json");
});

test("what is not known is not 0", () => {
  assert.equal(short(null), "?");
  assert.equal(duration(null), "?");
  assert.equal(between(0, 5), null);
  assert.equal(between(10, 5), 0);
  assert.equal(age(0, 5), "–");
  assert.equal(age(9e15, 5), "–");
  assert.equal(duration(61_000), "1 min 1 s");
});
