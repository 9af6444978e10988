/** What is said about each kind of row, and about figures: from data to words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { flat, words } from "./templates.mjs";

const JS = "../../pipeline/gateway/static/js";
const { isShown, nodeSeq, rowTemplate } = await import(`${JS}/rows.js`);
const { context, errors, facts, gauge, quality } = await import(`${JS}/figures.js`);
const { turnsOf, timeline } = await import(`${JS}/timeline.js`);
const { stateOf } = await import(`${JS}/states.js`);
const { Heights } = await import(`${JS}/heights.js`);
const { address, read } = await import(`${JS}/dashboard.js`);
const { Unread } = await import(`${JS}/unread.js`);
const { modelPane, nodeTemplate } = await import(`${JS}/model_pane.js`);
const { hits } = await import(`${JS}/hits.js`);
const { help, login } = await import(`${JS}/dialogs.js`);

function view(open = []) {
  return {
    isOpen: (_, part, told = false) => open.includes(part) || (told && !open.includes(`not:${part}`)),
    toggle() {}, body: () => undefined, fetchBody() {}, select() {}, toReplacement() {}, link: () => "#/s/s/1",
  };
}
const row = (kind, data, more = {}) => ({
  key: `${kind}:1`, kind, anchor_seq: 1, anchor_rank: 0, visibility: "transcript", turn: 1, step: 1, time: 1.8e12, data, ...more,
});
const said = (each, open = []) => words(rowTemplate(each, view(open), { mark: null, selected: false, index: 0 }));
const text = (words) => [{ type: "text", text: words }];
const TOOL = {
  call_id: "a", name: "bash", arguments: '{"command":"ls -l"}', status: "ok", content: text("total 0\nfile"), is_error: false, error: null,
  meta: null, call_seq: 1, call_time: 1.8e12, result_seq: 2, result_rank: 0, result_time: 1.8e12 + 1500, announced_by: 0, sub_calls: [],
};
const COMPACTION = {
  compaction_id: "k", trigger: "manual", status: "landed", checkpoint_seq: 9, summary: "what was done", summary_seq: 8, item_count: 41,
  token_count: 335_000, start_seq: 7, start_time: 1.8e12, end_time: 1.8e12 + 142_000, duration_ms: 142_000, error: null,
};

test("messages say who speaks", () => {
  const data = { message_id: "m", content: text("fix it"), source: {}, producer: null, form: null };
  assert.match(said(row("user", data)), /you .*fix it/);
  assert.match(said(row("steering", data)), /while it worked .*fix it/);
  assert.doesNotMatch(said(row("context", { ...data, producer: "AGENTS.md" })), /fix it/);
  assert.match(said(row("context", { ...data, producer: "AGENTS.md" }), ["context"]), /AGENTS\.md.*fix it/);
});

test("an assistant row says whether it is whole, thought apart", () => {
  const data = {
    status: "settled", message_id: "a", usage: null, provider: "p", model: "m", step_start_time: 1.8e12, first_token_time: 1.8e12 + 300, completed_time: 1.8e12 + 2000,
    blocks: [{ type: "reasoning", text: "hm, hm" }, ...text("done"), { type: "tool-call", id: "a", name: "bash", arguments: "{}" }],
  };
  assert.match(said(row("assistant", data)), /thought hm, hm.*done.*first token 300 ms.*2\.0 s/);
  assert.doesNotMatch(said(row("assistant", data)), /bash/); // it has a row of its own
  assert.match(said(row("assistant", { ...data, status: "interrupted" })), /interrupted/);
  assert.match(said(row("assistant", { ...data, status: "running" })), /writing.*→ bash/);
  assert.match(said(row("assistant", { ...data, blocks: { ref: "r", bytes: 50_000, preview: "beg" } })), /beg….*Show all 50KB/);
});

test("a tool card pairs call and result, and says how it went", () => {
  assert.match(said(row("tool", TOOL)), /bash ls -l .*1\.5 s .*total 0 file/);
  assert.match(said(row("tool", TOOL), ["card"]), /arguments .*"command": "ls -l".*result total 0/);
  assert.match(said(row("tool", { ...TOOL, status: "error", error: { name: "Denied", code: "E1" } })), /failed.*Denied · E1/);
  assert.match(said(row("tool", { ...TOOL, status: "interrupted", content: [], result_rank: -80 }), ["card"]), /it was cut off/);
  assert.match(said(row("tool", { ...TOOL, name: null, arguments: null })), /unknown tool/);
  const sub = (more) => ({ call_id: "s", name: "read", arguments: { path: "a.py" }, status: "ok", content: null, error: null, start_seq: 1, end_seq: 2, sub_calls: [], ...more });
  const nested = { ...TOOL, sub_calls: [sub({ sub_calls: [sub({ name: "inner", status: "running" })] })] };
  assert.match(said(row("tool", nested), ["card"]), /2 nested calls.*read done a\.py.*inner running/);
});

test("corpus 6: one row for a compaction, with what it replaced; what is unknown is left out", () => {
  assert.match(said(row("compaction", COMPACTION)), /Compacted manual 41 items replaced 335K tokens replaced 2 min 22 s summary/);
  assert.match(said(row("compaction", COMPACTION), ["summary"]), /what was done/);
  const bare = { ...COMPACTION, trigger: null, item_count: null, token_count: null, duration_ms: null, summary: null };
  assert.equal(said(row("compaction", bare)), "1 Compacted");
  assert.match(said(row("compaction", { ...bare, status: "failed", error: "overloaded" })), /Compaction failed.*overloaded/);
  assert.match(said(row("compaction", { ...bare, status: "stale" })), /cut off/);
  assert.match(flat(rowTemplate(row("compaction", { ...bare, status: "running" }), view(), {})), /<progress/);
});

test("a /compact is joined into its compaction, in one row", () => {
  const data = { command_id: "c", name: "compact", args: "", status: "success", text: "Compacted", run_seq: 1, done_seq: 10, compaction: COMPACTION };
  const told = said(row("command", data));
  assert.match(told, /\/compact Compacted manual 41 items/);
  assert.equal(told.match(/Compacted/g).length, 1);
  assert.match(said(row("command", { ...data, status: "error", text: "late failure" })), /Compacted.*failed.*late failure/);
  assert.match(said(row("command", { ...data, compaction: null, text: "nothing to compact" })), /\/compact.*nothing to compact/);
});

test("corpus 9, 10, 30: retries, errors and ends of turns", () => {
  const attempt = { seq: 1, time: 1, retry: 1, max_retries: 3, delay_ms: 2_000, failure: { code: "OVERLOADED", message: "try later" } };
  assert.match(said(row("retry", { retry_id: "r", provider: "p", mode: null, status: "cancelled", attempts: [attempt] })), /1 retry given up after 2\.0 s OVERLOADED · try later/);
  assert.match(said(row("turn-error", { message: null, code: "AUTH", masked: true })), /failed AUTH.*withheld/);
  assert.match(said(row("turn-error", { message: "boom", code: null, masked: false })), /boom/);
  assert.match(said(row("max-tokens", { closing_seq: 1 })), /limit/);
  const turn = { reason: "completed", reason_detail: null, steps: 2, tool_calls: 3, tool_errors: 1, usage: null, start_time: 1.8e12, end_time: 1.8e12 + 9_000, ttft_ms: null, decode_ms: null, decode_tokens: null, closing_seq: 1 };
  assert.match(said(row("turn", turn)), /turn 1 completed 2 steps 3 tool calls 1 failed 9\.0 s$/);
  assert.match(said(row("gap", { first: 3, last: 9 })), /3 to 9 are missing/);
  assert.match(said(row("unknown", { type: "x-plug/thing", ignorable: false })), /x-plug\/thing.*may be incomplete/);
  assert.match(said(row("kind-of-tomorrow", { body: 1 })), /kind-of-tomorrow/);
});

test("hostile text is shown by name wherever it stands", () => {
  const evil = "a\u202eb\x1b[31m<b>";
  const clean = /a<U\+202E>b<b>/;
  for (const each of [
    row("user", { content: text(evil), source: {}, producer: null }),
    row("context", { content: text(evil), source: {}, producer: evil }),
    row("tool", { ...TOOL, name: evil, arguments: evil, content: text(evil) }),
    row("command", { name: evil, args: evil, status: "error", text: evil, compaction: null }),
    row("compaction", { ...COMPACTION, summary: evil, error: evil, status: "failed" }),
    row("turn-error", { message: evil, code: evil, masked: false }),
    row("unknown", { type: evil, ignorable: true }),
    row("user", { content: [{ type: evil }, { type: "image", attachment: { name: evil } }], source: {}, producer: null }),
  ]) {
    const told = flat(rowTemplate(each, view(["card", "summary", "context"]), { mark: null, selected: false, index: 0 }));
    assert.doesNotMatch(told, /[\u202e\x1b]/, each.kind);
    assert.match(told, clean, each.kind);
  }
});

test("a row is about one event of the surface, or none", () => {
  assert.equal(nodeSeq(row("user", {})), 1);
  assert.equal(nodeSeq(row("tool", TOOL)), 2);
  assert.equal(nodeSeq(row("tool", { ...TOOL, result_rank: -80 })), null);
  assert.equal(nodeSeq(row("assistant", { status: "running" })), null);
  assert.equal(nodeSeq(row("command", { compaction: COMPACTION })), 9);
  assert.equal(nodeSeq(row("turn", {})), null);
  assert.match(said(row("user", { content: [] })), /^1 you/);
  const marked = flat(rowTemplate(row("user", { content: [] }), view(), { mark: "S", selected: false, index: 0 }));
  assert.match(marked, /<button class="placed"[^>]*replaced/);
});

test("auxiliary rows are shown if they run or miss something, the others when asked for", () => {
  const auxiliary = { visibility: "auxiliary" };
  assert.equal(isShown(row("system", {}, auxiliary), false), false);
  assert.equal(isShown(row("system", {}, auxiliary), true), true);
  assert.equal(isShown(row("compaction", { status: "running" }, auxiliary), false), true);
  assert.equal(isShown(row("assistant", { status: "running" }, auxiliary), false), true);
});

test("a context that was not measured is not 0", () => {
  const unknown = { prompt_tokens: null, context_window: 100, generation: 1 };
  assert.deepEqual(context(unknown), { share: null, said: "unknown until measured" });
  assert.equal(context({ ...unknown, generation: 0 }).said, "not measured yet");
  assert.equal(context({ prompt_tokens: 5, context_window: null }).share, null);
  assert.match(words(gauge({ prompt_tokens: 90, context_window: 100, generation: 0 })), /90 %/);
  assert.match(flat(gauge(unknown)), /unknown until measured/);
});

test("figures of an overview", () => {
  const overview = { counts: { user: 1, assistant: 2, tool_errors: 1, turns_error: 1 }, usage: { uncached_input: 10, output: 5, cache_read: 90, cache_write: 0 }, quality: { gap: 2, "reader:toolPairing": 1 } };
  assert.equal(errors(overview), 2);
  assert.deepEqual(facts(overview).map(([, value]) => value), ["3", "0 · 1 failed", "0", "100", "5"]);
  assert.equal(words(quality(overview)), "gap 2 reader toolPairing 1");
});

test("corpus 29: a silent open turn is stalled, by the clock", () => {
  assert.equal(stateOf({ state: "running", last_time: 1_000 }, 2_000).name, "running");
  assert.equal(stateOf({ state: "running", last_time: 1_000 }, 1_000_000).name, "stalled");
  assert.equal(stateOf({ state: "idle", last_time: 1_000 }, 1_000_000).name, "idle");
});

test("time of a turn: parallel calls count once, clocks that go back count nothing", () => {
  const t = 1.8e12;
  const tool = (from, to) => row("tool", { ...TOOL, call_time: t + from, result_time: t + to });
  const turn = row("turn", { reason: "error", start_time: t, end_time: t + 10_000 });
  const model = row("assistant", { step_start_time: t, completed_time: t + 2_000 });
  const [found] = turnsOf([model, tool(2_000, 5_000), tool(3_000, 6_000), tool(9_000, 8_000), turn]);
  assert.deepEqual([found.model, found.tool, found.wait], [2_000, 4_000, 4_000]);
  assert.doesNotMatch(flat(timeline([found, found], () => {})), /height=-/);
});

test("heights: estimated, then measured; a place is found by halving", () => {
  const heights = new Heights(() => 50);
  heights.setRows(Array.from({ length: 1000 }, (_, at) => ({ key: `r${at}` })));
  assert.equal(heights.total, 50_000);
  assert.equal(heights.measured([[0, 150], [1, 50]]), true);
  assert.equal(heights.measured([[0, 150], [1, 50]]), false);
  assert.equal(heights.total, 50_100);
  assert.equal(heights.indexAt(149), 0);
  assert.equal(heights.indexAt(150), 1);
  assert.equal(heights.indexAt(1e9), 999);
  heights.setRows([{ key: "new" }, ...heights.rows]);
  assert.equal(heights.offset(2), 200); // what was measured is known by its key
  heights.setRows([]);
  assert.equal(heights.total, 0);
});

test("heights: a place costs the same in a list of any length, and is exact", () => {
  const rows = Array.from({ length: 777 }, (_, at) => ({ key: `r${at}` }));
  const tall = rows.map((_, at) => 20 + ((at * 37) % 91));
  const asked = [];
  const heights = new Heights((row) => asked.push(row.key) && 50);
  heights.setRows(rows);
  for (let at = 776; at >= 0; at -= 3) heights.measured([[at, tall[at]]]);
  for (let at = 0; at < 777; at += 1) heights.measured([[at, tall[at]]]);
  let top = 0;
  rows.forEach((_, at) => {
    assert.equal(heights.offset(at), top);
    assert.equal(heights.indexAt(top), at);
    assert.equal(heights.indexAt(top + tall[at] - 1), at);
    top += tall[at];
  });
  assert.equal(heights.total, top);
  assert.equal(heights.indexAt(-5), 0);
  heights.setRows(rows.slice());
  heights.forget();
  assert.equal(heights.total, 777 * 50);
  assert.equal(asked.length, 777); // once for each version of a row
});

test("an address says what the dashboard shows", () => {
  const asked = { q: "a b", state: ["idle", "failed"], sort: "tokens", order: "asc" };
  assert.deepEqual(read(address(asked).slice(3)), asked);
  assert.equal(address(read("")), "#/");
  assert.equal(read("sort=evil").sort, "activity");
});

test("unread: rows since it was read, none of before the first visit", () => {
  const kept = new Map();
  const storage = { getItem: (name) => kept.get(name) ?? null, setItem: (name, value) => kept.set(name, value) };
  const overview = (rows, more = {}) => ({ session: "s", epoch: 0, last_time: 5, counts: { user: rows }, ...more });
  const unread = new Unread(storage);
  assert.equal(unread.of(overview(3)), null);
  assert.equal(unread.of(overview(3, { last_time: Date.now() + 1_000 })), 3);
  unread.read(overview(3));
  assert.equal(unread.of(overview(3)), null);
  assert.equal(new Unread(storage).of(overview(5)), 2);
  assert.equal(new Unread(storage).of(overview(5, { epoch: 1 })), 5);
  assert.equal(new Unread({ getItem: () => "{bad", setItem() { throw new Error("full"); } }).of(overview(1)), null);
});

test("the model's view names its nodes and moments", () => {
  const model = { at: 7, stops: [7, 20], stop: 0, surface: { nodes: [1], generation: 2 }, since: { came: [1, 2], went: [3] }, failed: null, session: { overview: { next_seq: 30 } }, toggle() {}, look() {}, toStop() {} };
  assert.match(words(modelPane(model)), /saw at #7.*before compaction 1 of 2.*1 node 2 replacements so far.*since then 2 came, 1 went/);
  assert.match(words(modelPane({ ...model, at: null, stops: [], since: null })), /sees now.*never compacted/);
  const node = { seq: 9, type: "user/message", op: "replace", shadowed: [1, 2], message: { role: "user", content: text("earlier …") } };
  assert.match(words(nodeTemplate(node, { id: "s" })), /checkpoint 9 in place of 2 nodes earlier …/);
  assert.match(words(nodeTemplate({ ...node, op: "append", shadowed: [], message: null }, { id: "s" })), /no message/);
});

test("what a search found, and what lies over the page", () => {
  const session = { link: () => "#", goTo() {}, app: { changed() {} } };
  const hit = { seq: 4, kind: "user", before: "the ", match: "word", behind: " it" };
  assert.match(words(hits({ ...session, found: { q: "word", hits: [hit], next: null } })), /1 row with “word”.*4 user the word it/);
  assert.match(words(hits({ ...session, found: { q: "x", hits: [] } })), /no row has “x”/);
  assert.match(words(help(() => {})), /next, previous row/);
  assert.match(words(login(() => {}, "that token is wrong")), /token is wrong/);
});
