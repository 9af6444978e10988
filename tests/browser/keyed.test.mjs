/** The keyed store of the page's client, by the cases of tests/pipeline/gateway/test_keyed.py. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyedSession, KeyedStore, lengthened, stepped } from "../../pipeline/gateway/static/js/keyed.js";

const row = (seq, rev = seq, more = {}) => ({
  key: `user:${seq}`, session: "s", epoch: 0, seq: rev, rev, kind: "user",
  anchor_seq: seq, anchor_rank: 0, deleted: false, visibility: "transcript", data: {}, ...more,
});
const upsert = (each, epoch = 0) => ({ t: "row", session: "s", epoch, key: each.key, rev: each.rev, row: { ...each, epoch } });
const snapshot = (rows, more = {}) => ({
  t: "snapshot", session: "s", epoch: 0, view: "transcript", reason: "new",
  rows, has_more: false, overview: null, surface: null, overviews: null, ...more,
});
const open = (text, rev) => row(5, rev, { key: "assistant:5", kind: "assistant", data: { blocks: [{ type: "text", text }] } });
const append = (offset, text, rev) => ({
  t: "append", session: "s", epoch: 0, key: "assistant:5", rev, block: 0, block_type: "text", offset, text,
});
const seqs = (rows) => rows.map((each) => each.anchor_seq);

test("a row counts iff its revision is higher", () => {
  const session = new KeyedSession();
  assert.equal(session.apply(upsert(row(1, 4))), true);
  assert.equal(session.apply(upsert(row(1, 4))), false);
  assert.equal(session.apply(upsert(row(1, 3))), false);
  assert.equal(session.apply(upsert(row(1, 5))), true);
  assert.equal(session.rows[0].rev, 5);
});

test("corpus 51: rows are in the order of their anchors, whatever order they come in", () => {
  const session = new KeyedSession();
  for (const seq of [5, 1, 9, 3]) session.apply(upsert(row(seq)));
  session.apply(upsert(row(3, 20, { key: "turn:3", anchor_rank: 10 })));
  assert.deepEqual(session.rows.map((each) => each.key), ["user:1", "user:3", "turn:3", "user:5", "user:9"]);
});

test("an append keeps every other row the same object, and sorts nothing again", () => {
  const session = new KeyedSession();
  session.apply(snapshot([row(1), row(2)]));
  const before = [...session.rows];
  const held = session.rows;
  session.apply(upsert(row(3)));
  assert.equal(session.rows, held);
  assert.equal(session.rows[0], before[0]);
  assert.equal(session.rows[1], before[1]);
  assert.deepEqual(seqs(session.rows), [1, 2, 3]);
});

test("a change in place moves nothing; a row that moves does", () => {
  const session = new KeyedSession();
  session.apply(snapshot([row(1), row(2), row(3)]));
  const { structure } = session;
  session.rows;
  session.apply(upsert(row(2, 9)));
  assert.equal(session.structure, structure);
  session.apply(upsert(row(2, 10, { anchor_seq: 8 })));
  assert.ok(session.structure > structure);
  assert.deepEqual(seqs(session.rows), [1, 3, 8]);
});

test("a deleted row goes, and stays gone for what is older", () => {
  const session = new KeyedSession();
  session.apply(snapshot([row(1), row(2)]));
  session.apply(upsert(row(2, 7, { deleted: true, data: null })));
  assert.deepEqual(seqs(session.rows), [1]);
  assert.equal(session.apply(upsert(row(2, 6))), false);
  assert.deepEqual(seqs(session.rows), [1]);
});

test("text goes on at an offset in code points", () => {
  const session = new KeyedSession();
  session.apply(upsert(open("a😀", 5)));
  assert.equal(session.apply(append(2, "b😀", 6)), true);
  assert.equal(session.apply(append(4, "c", 7)), true);
  assert.equal(session.rows[0].data.blocks[0].text, "a😀b😀c");
  assert.equal(session.apply(append(4, "c", 7)), false); // again
  assert.equal(session.wanted.size, 0);
});

test("text that does not fit makes the row wanted until it is fetched", () => {
  const session = new KeyedSession();
  session.apply(upsert(open("ab", 5)));
  assert.equal(session.apply(append(3, "d", 8)), false);
  assert.deepEqual([...session.wanted], [["assistant:5", 8]]);
  assert.equal(session.apply(append(2, "c", 9)), false); // not before it is fetched
  assert.equal(session.fetched(open("abc", 7), session.generation), true);
  assert.equal(session.wanted.size, 1); // what came is older than what is wanted
  assert.equal(session.fetched(open("abcdc", 9), session.generation), true);
  assert.equal(session.wanted.size, 0);
});

test("corpus 21: a reply to what was asked for before a snapshot is late", () => {
  const session = new KeyedSession();
  session.apply(snapshot([row(5)], { has_more: true }));
  const { generation } = session;
  session.apply(snapshot([row(6)], { has_more: true }));
  assert.equal(session.older([row(1)], generation, false), false);
  assert.equal(session.fetched(row(1), generation), false);
  assert.deepEqual(seqs(session.rows), [6]);
});

test("a snapshot keeps rows that are as they were", () => {
  const session = new KeyedSession();
  session.apply(snapshot([row(1), row(2)]));
  const [first] = session.rows;
  session.apply(snapshot([row(1), row(2, 9), row(3)]));
  assert.equal(session.rows[0], first);
  assert.equal(session.rows[1].rev, 9);
});

test("a higher epoch voids everything, a lower one is void", () => {
  const session = new KeyedSession();
  session.apply(upsert(row(9, 900)));
  session.apply(upsert(row(1, 3), 1));
  assert.deepEqual(seqs(session.rows), [1]);
  assert.equal(session.apply(upsert(row(5, 5000), 0)), false);
  assert.equal(session.epoch, 1);
});

test("pages above tile; what lies below the floor is not shown before its page comes", () => {
  const session = new KeyedSession();
  session.apply(snapshot([row(7), row(8)], { has_more: true }));
  session.apply(upsert(row(2, 20)));
  assert.deepEqual(seqs(session.rows), [7, 8]);
  assert.equal(session.before, 7);
  assert.equal(session.older([row(5), row(6)], session.generation, true), true);
  assert.deepEqual(seqs(session.rows), [5, 6, 7, 8]);
  assert.equal(session.older([row(1), row(2, 3)], session.generation, false), true);
  assert.deepEqual(seqs(session.rows), [1, 2, 5, 6, 7, 8]);
  assert.equal(session.row("user:2").rev, 20);
  assert.equal(session.before, null);
});

test("a window elsewhere grows both ways and becomes part of the tail where it reaches it", () => {
  const session = new KeyedSession();
  session.apply(snapshot([row(90), row(91)], { has_more: true }));
  const page = (first, before, rows, has_more) => ({ epoch: 0, first, before, rows, has_more });
  session.elsewhere(page(40, 50, [row(40), row(45)], true), session.generation);
  assert.deepEqual(seqs(session.windowRows), [40, 45]);
  session.elsewhere(page(50, 60, [row(50)], true), session.generation);
  session.elsewhere(page(30, 40, [row(30)], false), session.generation);
  assert.deepEqual(seqs(session.windowRows), [30, 40, 45, 50]);
  assert.deepEqual(seqs(session.rows), [90, 91]);
  session.apply(upsert(row(45, 200)));
  assert.equal(session.windowRows[2].rev, 200);
  session.elsewhere(page(60, 90, [row(70)], true), session.generation);
  assert.equal(session.window, null);
  assert.deepEqual(seqs(session.rows), [30, 40, 45, 50, 70, 90, 91]);
  assert.equal(session.before, null);
});

test("an overview counts if it is not older", () => {
  const session = new KeyedSession();
  const told = (seq, title) => ({ t: "overview", session: "s", epoch: 0, seq, overview: { seq, epoch: 0, title } });
  assert.equal(session.apply(told(5, "a")), true);
  assert.equal(session.apply(told(4, "b")), false);
  assert.equal(session.apply(told(5, "a")), false);
  assert.equal(session.apply(told(5, "c")), true);
  assert.equal(session.overview.title, "c");
});

test("the surface steps: a replacement stands where the first it shadows stood", () => {
  let surface = { generation: 0, as_of_seq: -1, nodes: [] };
  const change = (seq, more) => ({ seq, op: "append", type: "user/message", message: null, shadowed: [], ...more });
  for (const seq of [1, 2, 3]) surface = stepped(surface, change(seq));
  const third = surface.nodes[2];
  surface = stepped(surface, change(7, { op: "replace", shadowed: [1, 2], position: 0, generation: 1 }));
  assert.deepEqual(surface.nodes.map((node) => node.seq), [7, 3]);
  assert.equal(surface.nodes[1], third);
  assert.equal(surface.generation, 1);
});

test("offloaded images are marked, counted depth first, and no other node is touched", () => {
  const image = { type: "image", attachment: { name: "\ud83d" } };
  const done = { ...image, offloaded: true };
  const words = { type: "text", text: "t" };
  const within = { type: "tool-result", content: [image, words, image] };
  const message = { id: "m", content: [done, "odd", null, within, image] };
  const change = (seq, more) => ({ seq, op: "append", type: "user/message", message, shadowed: [], ...more });
  const before = [1, 2].reduce((held, seq) => stepped(held, change(seq)), { generation: 0, as_of_seq: -1, nodes: [] });
  const targets = [{ seq: 2, images: [0, 2, 3] }, { seq: 7, images: [0] }];
  const after = stepped(before, change(3, { op: "amend", message: null, targets }));
  assert.equal(after.as_of_seq, 3);
  assert.equal(after.nodes[0], before.nodes[0]);
  const marked = { ...within, content: [image, words, done] };
  assert.deepEqual(after.nodes[1].message, { id: "m", content: [done, "odd", null, marked, done] });
  assert.deepEqual(before.nodes[1].message, message);
});

test("frames of no session and of unknown kinds change nothing", () => {
  const store = new KeyedStore();
  assert.equal(store.apply({ t: "ping" }), null);
  assert.equal(store.apply({ t: "tomorrow", session: "s", epoch: 0 }), null);
  assert.equal(store.apply(upsert(row(1))), "s");
});

test("a snapshot of all sessions tells each where it stands", () => {
  const store = new KeyedStore();
  const overview = (session) => ({ session, epoch: 0, seq: 1 });
  const all = (...names) => ({ t: "snapshot", session: "", epoch: 0, overviews: names.map(overview) });
  assert.equal(store.apply(all("a", "b")), "");
  store.apply(all("a"));
  assert.ok(store.session("a").overview);
  assert.equal(store.session("b").overview, null);
});

test("text of another block or type does not fit", () => {
  const held = open("ab", 5);
  assert.equal(lengthened(held, { ...append(2, "c", 6), block: 1 }), null);
  assert.equal(lengthened(held, { ...append(2, "c", 6), block_type: "reasoning" }), null);
  assert.equal(lengthened({ ...held, data: null }, append(2, "c", 6)), null);
});

test("a session that went with its topics comes again in any epoch", () => {
  const store = new KeyedStore();
  const told = (epoch) => {
    const overview = { session: "s", epoch, seq: 0 };
    return { t: "overview", session: "s", epoch, seq: 0, overview };
  };
  store.apply(told(2));
  store.apply({ t: "snapshot", session: "", epoch: 0, overviews: [] });
  assert.equal(store.apply(told(0)), "s");
  assert.deepEqual(store.session("s").overview, told(0).overview);
});
