/** Turns as far as they are held: how long each took, and what of it was model, tool and waiting. */
import { html, nothing, svg } from "../vendor/lit-html/lit-html.js";
import { between, duration } from "./format.js";

const MOST = 160; // turns drawn
const [HEIGHT, WIDTH, GAP] = [34, 7, 2];

/** `[{turn, seq, reason, model, tool, wait, total}]` of the turns that ended among `rows`, in ms. */
export function turnsOf(rows) {
  const spent = new Map();
  const of = (row) => {
    const key = row.turn;
    if (!spent.has(key)) spent.set(key, { model: 0, tools: [] });
    return spent.get(key);
  };
  const turns = [];
  for (const row of rows) {
    const { data } = row;
    if (row.kind === "assistant" && data) of(row).model += between(data.step_start_time, data.completed_time) ?? 0;
    if (row.kind === "tool" && data?.result_time && data.call_time) of(row).tools.push([data.call_time, data.result_time]);
    if (row.kind !== "turn" || !data) continue;
    const { model, tools } = of(row);
    const total = between(data.start_time, data.end_time) ?? 0;
    const tool = Math.min(total, union(tools));
    const own = Math.min(total - tool, model);
    turns.push({ turn: row.turn, seq: row.anchor_seq, key: row.key, reason: data.reason, model: own, tool, wait: Math.max(0, total - tool - own), total });
    spent.delete(row.turn);
  }
  return turns.slice(-MOST);
}

/** Time covered by any of the spans: parallel calls count once. */
function union(spans) {
  let [sum, end] = [0, -Infinity];
  for (const [from, to] of spans.sort((a, b) => a[0] - b[0])) {
    if (to > Math.max(from, end)) sum += to - Math.max(from, end);
    end = Math.max(end, to);
  }
  return sum;
}

/** Bars, tallest for the longest turn; square roots, so that short turns are seen beside long ones. */
export function timeline(turns, onturn) {
  if (turns.length < 2) return nothing;
  const longest = Math.max(1, ...turns.map(({ total }) => total));
  const width = turns.length * (WIDTH + GAP);
  return html`<div class="timeline" tabindex="0" role="group" aria-label="turns, how long each took">
    <svg viewBox="0 0 ${width} ${HEIGHT}" width=${width} height=${HEIGHT} role="img" aria-label=${`${turns.length} turns, the longest ${duration(longest)}`}>
      ${turns.map((each, at) => bar(each, at, longest, onturn))}
    </svg>
    <span class="key" aria-hidden="true"><i class="model"></i>model <i class="tool"></i>tools <i class="wait"></i>waiting</span>
  </div>`;
}

function bar(each, at, longest, onturn) {
  const full = Math.max(2, Math.sqrt(each.total / longest) * (HEIGHT - 4));
  const x = at * (WIDTH + GAP);
  let y = HEIGHT;
  const parts = ["wait", "tool", "model"].map((part) => {
    const height = each.total ? (full * each[part]) / each.total : part === "wait" ? full : 0;
    y -= height;
    return svg`<rect class=${part} x=${x} y=${y} width=${WIDTH} height=${height} />`;
  });
  const bad = each.reason && !["completed", "unknown"].includes(each.reason);
  const said = `turn ${each.turn ?? "?"}, ${each.reason ?? "ended"}: ${duration(each.total)}; model ${duration(each.model)}, tools ${duration(each.tool)}, waiting ${duration(each.wait)}`;
  return svg`<g class="turn" @click=${() => onturn(each)}>
    <title>${said}</title>
    <rect class="hit" x=${x} y="0" width=${WIDTH + GAP} height=${HEIGHT} />
    ${parts}
    ${bad ? svg`<rect class="bad" x=${x} y="0" width=${WIDTH} height="2.5" />` : nothing}
  </g>`;
}
