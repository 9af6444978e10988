/** The model's view: its nodes in surface order, a slider over compactions, and the way back. */
import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { excerpt, isLeftOut } from "./blocks.js";
import { plural, whole } from "./format.js";
import { line } from "./text.js";

export function modelPane(model) {
  const { surface } = model;
  return html`<header class="pane-head">
      <h2>What the model ${model.at === null ? "sees now" : html`saw at <span class="nowrap">#${model.at}</span>`}</h2>
      <button class="quiet" @click=${() => model.toggle()} title="close (m)" aria-label="close the model view">✕</button>
    </header>
    ${slider(model)}
    ${model.failed ? html`<p class="note bad">${model.failed}</p>` : nothing}
    <p class="pane-facts" aria-live="polite">
      ${surface ? html`<span>${plural(surface.nodes.length, "node")}</span><span>${plural(surface.generation, "replacement")} so far</span>` : html`<span>reading …</span>`}
      ${model.since ? html`<span>since then ${whole(model.since.came.length)} came, ${whole(model.since.went.length)} went</span>` : nothing}
    </p>`;
}

function slider(model) {
  const count = model.stops.length;
  const said = model.at === null ? "now" : model.stops.includes(model.at) ? `before compaction ${model.stop + 1} of ${count}` : `event ${model.at}`;
  return html`<div class="slider">
    <input
      type="range" min="0" max=${count} step="1" .value=${String(model.stop)} ?disabled=${!count}
      aria-label="moment, by compactions" aria-valuetext=${said}
      @input=${(event) => model.toStop(Number(event.target.value))}
    />
    <div class="slider-row">
      <span class="said">${count ? said : "never compacted"}</span>
      <label>at event <input
        type="number" min="0" max=${Math.max(0, (model.session.overview?.next_seq ?? 1) - 1)} .value=${model.at === null ? "" : String(model.at)} placeholder="now"
        @change=${(event) => model.look(event.target.value === "" ? null : Math.max(0, Math.trunc(Number(event.target.value))))}
      /></label>
      <button class="quiet" ?disabled=${model.at === null} @click=${() => model.look(null)}>Now</button>
    </div>
  </div>`;
}

/** One node; a click shows its row in the transcript. */
export function nodeTemplate(node, session) {
  const { message } = node;
  const role = isLeftOut(message) ? null : message?.role;
  const checkpoint = node.op === "replace" && node.type === "user/message";
  return html`<div class="node ${checkpoint ? "checkpoint" : ""}" data-key=${node.key} role="listitem">
    <a class="node-link" href=${`#/s/${encodeURIComponent(session.id)}/${node.seq}`} @click=${(event) => jump(event, node, session)}>
      <span class="node-head"><span class="role ${role ?? ""}">${checkpoint ? "checkpoint" : line(role ?? node.type ?? "?")}</span><span class="seq">${node.seq}</span></span>
      ${node.shadowed.length ? html`<span class="fact">in place of ${plural(node.shadowed.length, "node")}</span>` : nothing}
      <span class="node-text" dir="auto">${words(message)}</span>
    </a>
  </div>`;
}

function words(message) {
  if (message === null || message === undefined) return "no message";
  return excerpt(isLeftOut(message) ? message : message.content) || "…";
}

function jump(event, node, session) {
  event.preventDefault();
  // A copy stands where the first node it replaced was read: that row is the one to show.
  session.goTo(node.type === "tool/result" ? (node.shadowed[0] ?? node.seq) : node.seq);
}
