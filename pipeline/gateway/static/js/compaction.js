/** One row for one compaction: what set it off, what it replaced, how long it took, what it says. */
import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { clock, duration, plural, short } from "./format.js";
import { line } from "./text.js";
import { content } from "./blocks.js";

const TITLE = { landed: "Compacted", running: "Compacting", failed: "Compaction failed", stale: "Compaction was cut off" };

/** `command`: the `/compact` that is joined to it. */
export function compaction(row, data, view, command = null) {
  const open = view.isOpen(row, "summary");
  const facts = [
    data.trigger === "auto" ? "automatic" : data.trigger,
    data.item_count === null ? null : `${plural(data.item_count, "item")} replaced`,
    data.token_count === null ? null : `${short(data.token_count)} tokens replaced`,
    data.duration_ms === null ? null : duration(data.duration_ms),
    data.status === "running" && data.start_time ? `since ${clock(data.start_time)}` : null,
  ];
  return html`<div class="compaction ${data.status}">
    <div class="rule">
      <span class="title">${command ? html`<code>/${line(command.name ?? "compact")}</code>` : nothing} ${TITLE[data.status] ?? line(data.status)}</span>
      ${facts.filter(Boolean).map((fact) => html`<span class="fact">${fact}</span>`)}
      ${data.summary === null ? nothing : toggle(row, view, open)}
    </div>
    ${data.status === "running" ? html`<progress aria-label="compaction is running"></progress>` : nothing}
    ${data.error ? html`<p class="failure">${line(data.error)}</p>` : nothing}
    ${open && data.summary !== null ? html`<div class="summary">${content(data.summary, row, view, "summary-text")}</div>` : nothing}
  </div>`;
}

function toggle(row, view, open) {
  return html`<button class="fold" aria-expanded=${open} @click=${() => view.toggle(row, "summary")}>
    <span class="caret" aria-hidden="true"></span>summary
  </button>`;
}
