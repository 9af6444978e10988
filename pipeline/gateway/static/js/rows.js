/** How each kind of row looks. A kind that is not known is shown by its name. */
import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { content } from "./blocks.js";
import { compaction } from "./compaction.js";
import { between, clock, date, duration, plural, short, whole } from "./format.js";
import { line, visible } from "./text.js";
import { SAID, failure, summary, tool } from "./tools.js";

/** Auxiliary rows that are shown without asking: what runs, and what is missing. */
const ALWAYS = new Set(["compaction", "turn", "gap", "unknown"]);

export function isShown(row, everything) {
  if (row.visibility === "transcript" || everything || ALWAYS.has(row.kind)) return true;
  return row.kind === "assistant" && row.data?.status === "running";
}

/** The event of the surface that the row is about; null: it has none. */
export function nodeSeq(row) {
  const { data } = row;
  switch (row.kind) {
    case "user":
    case "steering":
    case "context":
    case "system":
      return row.anchor_seq;
    case "assistant":
      return data?.status === "settled" ? row.anchor_seq : null;
    case "tool":
      return data?.result_rank === 0 ? data.result_seq : null;
    case "compaction":
      return data?.checkpoint_seq ?? null;
    case "command":
      return data?.compaction?.checkpoint_seq ?? null;
    default:
      return null;
  }
}

export const MARKS = {
  C: ["current", "the model sees this"],
  S: ["shadowed", "it was replaced: the model no longer sees this"],
  "-": ["log-only", "never part of what the model sees"],
  later: ["later", "after the moment shown beside"],
};

/** One row. `mark`: a key of MARKS, null when the model view is closed. */
export function rowTemplate(row, view, { mark, selected, index }) {
  const [said, why] = mark ? MARKS[mark] : [null, null];
  return html`<article
    class="row ${row.kind} ${row.visibility} ${said ?? ""} ${selected ? "selected" : ""}"
    data-key=${row.key}
    tabindex=${selected ? 0 : -1}
    aria-posinset=${index + 1}
    aria-setsize="-1"
    aria-label=${label(row)}
    @click=${() => view.select(row.key)}
  >
    <div class="gutter">
      <a class="seq" href=${view.link(row)} title=${date(row.time)}>${row.anchor_seq}</a>
      ${said ? placed(row, view, said, why) : nothing}
    </div>
    <div class="body">${body(row, view)}</div>
  </article>`;
}

function placed(row, view, said, why) {
  if (said !== "shadowed") return html`<span class="placed" title=${why}>${said}</span>`;
  return html`<button class="placed" title="${why}; show what replaced it" @click=${() => view.toReplacement(nodeSeq(row))}>${said}</button>`;
}

const label = (row) => `${row.kind}, event ${row.anchor_seq}`;

function body(row, view) {
  const draw = KINDS[row.kind];
  if (!row.data || !draw) return html`<p class="note">${line(row.kind)}</p>`;
  return draw(row, view);
}

const heading = (row, name, more = nothing) =>
  html`<h3>${name}${more}<time>${clock(row.time)}</time></h3>`;

function said(name) {
  return (row, view) => html`${heading(row, name)}${content(row.data.content, row, view)}`;
}

function context(row, view) {
  const open = view.isOpen(row, "context");
  return html`<button class="fold" aria-expanded=${open} @click=${() => view.toggle(row, "context")}>
      <span class="caret" aria-hidden="true"></span>${row.kind === "system" ? "system prompt" : "context"}
      ${row.data.producer ? html`<span class="fact">${line(row.data.producer)}</span>` : nothing}
    </button>
    ${open ? content(row.data.content, row, view) : nothing}`;
}

function assistant(row, view) {
  const { data } = row;
  const interrupted = data.status === "interrupted" ? html`<span class="flag bad">interrupted</span>` : nothing;
  const running = data.status === "running" ? html`<span class="flag live">writing</span>` : nothing;
  return html`${heading(row, "assistant", html`${running}${interrupted}`)}
    ${content(data.blocks, row, view, "blocks")}${pending(data)}${figures(data)}`;
}

/** Calls that the message announces, while their own rows are not there. */
function pending(data) {
  if (data.status === "settled" || !Array.isArray(data.blocks)) return nothing;
  const calls = data.blocks.filter((block) => block?.type === "tool-call");
  return calls.map((call) => html`<div class="other">→ ${line(call.name ?? "?")} ${summary(call.arguments)}</div>`);
}

function figures(data) {
  if (data.status === "running") return nothing;
  const first = between(data.step_start_time, data.first_token_time);
  const all = between(data.step_start_time, data.completed_time);
  const told = [
    data.model && line(data.model),
    first === null ? null : `first token ${duration(first)}`,
    all === null ? null : duration(all),
  ].filter(Boolean);
  return told.length ? html`<p class="figures">${told.map((each) => html`<span>${each}</span>`)}</p>` : nothing;
}

function command(row, view) {
  const { data } = row;
  const joined = data.compaction;
  const own = html`${heading(row, html`<code>/${line(data.name ?? "?")}${data.args ? ` ${line(data.args)}` : ""}</code>`, html`<span class="flag ${data.status}">${SAID_COMMAND[data.status] ?? line(data.status)}</span>`)}
    ${data.text ? content(data.text, row, view, "text") : nothing}`;
  if (!joined) return own;
  return html`${compaction(row, joined, view, data)}${data.status === "success" ? nothing : own}`;
}
const SAID_COMMAND = { running: "running", success: "done", error: "failed" };

function retry(row) {
  const { data } = row;
  const last = data.attempts.at(-1);
  const state = { scheduled: "waiting to try again", started: "tried again", cancelled: "given up" }[data.status];
  return html`<p class="note bad">
    <strong>${plural(data.attempts.length, "retry", "retries")}</strong>
    <span class="fact">${state ?? line(data.status)}</span>
    ${last?.delay_ms ? html`<span class="fact">after ${duration(last.delay_ms)}</span>` : nothing}
    ${last ? html`<span class="failure">${failure(last.failure)}</span>` : nothing}
  </p>`;
}

function turnError(row) {
  const { data } = row;
  const told = data.masked ? "its message is withheld: it may hold credentials" : (data.message ?? "the log does not say why");
  return html`<div class="note bad"><strong>The turn failed</strong>${data.code ? html`<span class="fact">${line(data.code)}</span>` : nothing}<div class="text" dir="auto">${visible(told.slice(0, 4_000))}</div></div>`;
}

function turn(row) {
  const { data } = row;
  const facts = [
    line(data.reason ?? "ended"),
    plural(data.steps, "step"),
    data.tool_calls ? plural(data.tool_calls, "tool call") : null,
    data.tool_errors ? `${whole(data.tool_errors)} failed` : null,
    took(data),
    data.ttft_ms === null ? null : `first token ${duration(data.ttft_ms)}`,
    data.decode_ms && data.decode_tokens ? `${whole(Math.round(data.decode_tokens / (data.decode_ms / 1000)))} tokens/s` : null,
    data.usage ? `${short(data.usage.output)} tokens out` : null,
  ];
  return html`<p class="turn-end"><strong>turn ${row.turn ?? "?"}</strong>${facts.filter(Boolean).map((fact) => html`<span class="fact">${fact}</span>`)}</p>`;
}

function took(data) {
  const ms = between(data.start_time, data.end_time);
  return ms === null ? null : duration(ms);
}

const KINDS = {
  user: said("you"),
  steering: said("you, while it worked"),
  context,
  system: context,
  assistant,
  tool,
  command,
  compaction: (row, view) => compaction(row, row.data, view),
  retry,
  "turn-error": turnError,
  "max-tokens": () => html`<p class="note bad"><strong>The output limit was reached</strong></p>`,
  turn,
  gap: (row) => html`<p class="note bad"><strong>Events ${row.data.first} to ${row.data.last} are missing</strong><span class="fact">the log has a gap here</span></p>`,
  unknown: (row) => html`<p class="note">${line(row.data.type)}<span class="fact">an event of an unknown type${row.data.ignorable ? "" : "; what the model sees may be incomplete"}</span></p>`,
};
export { SAID };

/** A guess at a row's height before it was ever mounted, in pixels. */
export function estimate(row) {
  switch (row.kind) {
    case "turn":
    case "gap":
    case "unknown":
    case "context":
    case "system":
      return 36;
    case "compaction":
    case "command":
      return 56;
    case "tool":
      return 84;
    case "assistant":
    case "user":
    case "steering":
      return 62 + 21 * Math.min(40, Math.ceil(characters(row) / 90));
    default:
      return 60;
  }
}

function characters(row) {
  const blocks = row.data?.blocks ?? row.data?.content;
  if (!Array.isArray(blocks)) return 200;
  let found = 0;
  for (const block of blocks) if (block?.type === "text") found += block.text?.length ?? 0;
  return found;
}
