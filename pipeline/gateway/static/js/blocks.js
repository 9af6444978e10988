/** Content of messages and results: the blocks that are known as such, all others by their type. */
import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { clip, line, pretty, visible } from "./text.js";
import { plural, short } from "./format.js";

export const LONG = 20_000; // characters of one text that are shown without asking
const FENCE = /^ {0,3}```.*$/m;

/** A body that the page left out: `{ref, bytes, preview}`. */
export const isLeftOut = (value) => typeof value?.ref === "string" && typeof value.bytes === "number";

/**
 * `value`: content, or what stands for it. `view` offers `body(ref)` (undefined: not asked for yet),
 * `fetchBody(row, ref)`, `isOpen(row, part)` and `toggle(row, part)`.
 */
export function content(value, row, view, part = "content") {
  if (isLeftOut(value)) return leftOut(value, row, view, part);
  if (typeof value === "string") return text(value, row, view, part);
  if (!Array.isArray(value)) return value ? text(pretty(value), row, view, part) : nothing;
  return value.map((block, at) => one(block, row, view, `${part}/${at}`));
}

function leftOut(value, row, view, part) {
  const body = view.body(value.ref);
  if (body?.value !== undefined) return content(body.value, row, view, part);
  return html`<div class="text cut" dir="auto">${visible(value.preview)}…</div>
    <button class="more" ?disabled=${body?.asked} @click=${() => view.fetchBody(row, value.ref)}>
      ${body?.failed ? `could not be fetched: ${body.failed}. Again` : `Show all ${short(value.bytes)}B`}
    </button>`;
}

function one(block, row, view, part) {
  switch (block?.type) {
    case "text":
      return text(String(block.text ?? ""), row, view, part);
    case "reasoning":
      return reasoning(block, row, view, part);
    case "tool-result":
      return content(block.content, row, view, part);
    case "tool-call":
      return nothing;
    case "image":
      return html`<div class="other">${image(block)}</div>`;
    default:
      return html`<div class="other">[${line(block?.type ?? "unknown block")}]</div>`;
  }
}

function image({ attachment = {}, offloaded }) {
  const size = attachment.width ? `${attachment.width} × ${attachment.height}` : null;
  const told = [attachment.name, attachment.mediaType, size, offloaded === true ? "not sent any more" : null];
  return `image ${told.filter(Boolean).map(line).join(" · ")}`;
}

/** While a block grows it is one text node; code is set apart when it is whole. */
export function text(value, row, view, part) {
  const grows = row.data?.status === "running" && row.kind === "assistant";
  const [kept, more] = view.isOpen(row, `all:${part}`) ? [value, 0] : clip(value, LONG);
  const shown = visible(kept);
  if (grows) return html`<div class="text" dir="auto">${visible(value.slice(-LONG))}</div>`;
  return html`${FENCE.test(shown) ? fenced(shown) : html`<div class="text" dir="auto">${shown}</div>`}${
    more ? html`<button class="more" @click=${() => view.toggle(row, `all:${part}`)}>Show ${plural(more, "more character")}</button>` : nothing
  }`;
}

function fenced(shown) {
  return shown.split(/^ {0,3}```.*$/m).map((piece, at) =>
    at % 2
      ? html`<pre class="code" tabindex="0">${piece.replace(/^\n|\n$/g, "")}</pre>`
      : piece.trim() && html`<div class="text" dir="auto">${piece.trim()}</div>`,
  );
}

function reasoning(block, row, view, part) {
  const value = String(block.text ?? "");
  const running = row.data?.status === "running";
  const open = view.isOpen(row, part) || running;
  return html`<div class="reasoning">
    <button class="fold" aria-expanded=${open} @click=${() => view.toggle(row, part)}>
      <span class="caret" aria-hidden="true"></span>thought${open ? nothing : html`<span class="hint">${line(value.slice(0, 160))}</span>`}
    </button>
    ${open ? text(value, row, view, part) : nothing}
  </div>`;
}

/** The first words of any content, on one line. */
export function excerpt(value, most = 240) {
  if (isLeftOut(value)) return line(value.preview).slice(0, most);
  if (typeof value === "string") return line(value.slice(0, most * 2)).slice(0, most);
  if (!Array.isArray(value)) return "";
  const parts = value.map((block) => {
    if (typeof block?.text === "string") return block.text.slice(0, most * 2);
    if (block?.type === "tool-call") return `→ ${block.name ?? "?"} ${String(block.arguments ?? "").slice(0, most)}`;
    if (block?.type === "tool-result") return excerpt(block.content, most);
    return `[${block?.type ?? "?"}]`;
  });
  return line(parts.join(" ")).slice(0, most);
}
