/** Tool cards: a call with its result, nested calls within. */
import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { content, excerpt, isLeftOut } from "./blocks.js";
import { between, duration, plural } from "./format.js";
import { clip, line, pretty, visible } from "./text.js";

const LINES = 4; // of a result that are seen while the card is closed
export const SAID = { running: "running", ok: "done", error: "failed", interrupted: "interrupted" };

export function tool(row, view) {
  const { data } = row;
  const failed = data.status === "error";
  const open = view.isOpen(row, "card", failed || data.status === "running");
  const took = between(data.call_time, data.result_time);
  return html`<div class="card ${data.status}">
    <button class="head" aria-expanded=${open} @click=${() => view.toggle(row, "card", open)}>
      <span class="caret" aria-hidden="true"></span>
      <span class="mark" aria-hidden="true"></span><span class="name">${line(data.name ?? "unknown tool")}</span>
      <span class="hint">${open ? nothing : summary(data.arguments)}</span>
      ${data.sub_calls.length ? html`<span class="fact">${plural(count(data.sub_calls), "nested call")}</span>` : nothing}
      <span class="fact status">${SAID[data.status] ?? line(data.status)}</span>
      ${took === null ? nothing : html`<span class="fact">${duration(took)}</span>`}
    </button>
    ${open ? body(row, view) : peek(data)}
  </div>`;
}

function body(row, view) {
  const { data } = row;
  return html`<div class="inside">
    ${data.arguments ? html`<p class="label">arguments</p>${args(data.arguments, row, view)}` : nothing}
    ${data.sub_calls.length ? html`<p class="label">nested calls</p>${nested(data.sub_calls)}` : nothing}
    ${data.error ? html`<p class="failure">${failure(data.error)}</p>` : nothing}
    ${data.status === "running" ? nothing : html`<p class="label">result</p><div class="output" tabindex="0" role="group" aria-label="result">${result(row, view)}</div>`}
  </div>`;
}

function args(value, row, view) {
  if (isLeftOut(value)) return content(value, row, view, "arguments");
  const [kept, more] = clip(visible(pretty(value)), 8_000);
  return html`<pre class="code" tabindex="0">${kept}${more ? "…" : ""}</pre>`;
}

function result(row, view) {
  const { data } = row;
  const empty = !data.content || (Array.isArray(data.content) && !data.content.length);
  return empty ? html`<p class="none">${data.status === "interrupted" ? "it was cut off: no result" : "empty"}</p>` : content(data.content, row, view);
}

/** The first lines of a result, of a card that is closed. */
function peek(data) {
  const first = isLeftOut(data.content) ? data.content.preview : firstText(data.content);
  if (!first) return nothing;
  const lines = visible(first.slice(0, 2_000)).trim().split("\n");
  return html`<pre class="peek">${lines.slice(0, LINES).join("\n")}${lines.length > LINES ? "\n…" : ""}</pre>`;
}

function firstText(value) {
  if (!Array.isArray(value)) return typeof value === "string" ? value : "";
  for (const block of value) {
    if (typeof block?.text === "string") return block.text;
    if (block?.type === "tool-result") return firstText(block.content);
  }
  return excerpt(value);
}

function nested(calls, depth = 0) {
  return html`<ul class="nested">
    ${calls.map(
      (call) => html`<li class=${call.status}>
        <span class="mark" aria-hidden="true"></span><span class="name">${line(call.name ?? "unknown tool")}</span>
        <span class="fact status">${SAID[call.status] ?? line(call.status)}</span>
        <span class="hint">${summary(call.arguments)}</span>
        ${call.error ? html`<span class="failure">${failure(call.error)}</span>` : nothing}
        ${call.sub_calls.length ? (depth < 40 ? nested(call.sub_calls, depth + 1) : html`<span class="hint">and ${plural(count(call.sub_calls), "call")} below</span>`) : nothing}
      </li>`,
    )}
  </ul>`;
}

const count = (calls) => calls.reduce((sum, call) => sum + 1 + count(call.sub_calls), 0);

/** The values of the arguments that say most, on one line. */
export function summary(value) {
  if (value === null || value === undefined) return "";
  if (isLeftOut(value)) return line(value.preview).slice(0, 200);
  let read = value;
  if (typeof value === "string") {
    try {
      read = value.length < 20_000 ? JSON.parse(value) : value;
    } catch {
      read = value; // it is still being written, or is no JSON
    }
  }
  if (typeof read !== "object" || !read) return line(String(read).slice(0, 400)).slice(0, 200);
  const told = Object.values(read).filter((each) => ["string", "number"].includes(typeof each));
  return line(told.map((each) => String(each).slice(0, 200)).join("  ·  ")).slice(0, 200);
}

/** What an error object says. */
export function failure(error) {
  if (typeof error === "string") return line(error);
  const told = [error?.name, error?.code, error?.message, error?.reason].filter((part) => typeof part === "string");
  return line([...new Set(told)].join(" · ") || JSON.stringify(error)).slice(0, 400);
}
