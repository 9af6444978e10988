/** Figures of a session: how full the context is, tokens, what is wrong with the log. */
import { html, nothing, svg } from "../vendor/lit-html/lit-html.js";
import { plural, short, sum, whole } from "./format.js";
import { line } from "./text.js";

/** How full the context is, honestly: `{share, said}`; a share of null is not known. */
export function context({ prompt_tokens, context_window, generation }) {
  if (prompt_tokens === null) {
    return { share: null, said: generation ? "unknown until measured" : "not measured yet" };
  }
  if (!context_window) return { share: null, said: `${short(prompt_tokens)} tokens, window unknown` };
  const share = prompt_tokens / context_window;
  return { share, said: `${short(prompt_tokens)} of ${short(context_window)} tokens` };
}

export function gauge(overview, withText = true) {
  const { share, said } = context(overview);
  const full = share === null ? 0 : Math.min(1, share);
  const level = full > 0.9 ? "high" : full > 0.7 ? "mid" : "low";
  const percent = share === null ? "?" : `${Math.round(share * 100)} %`;
  return html`<span class="gauge ${share === null ? "unknown" : level}" role="img" aria-label=${`context: ${share === null ? "" : `${percent}, `}${said}`} title=${`context: ${said}`}>
    <svg viewBox="0 0 64 6" width="64" height="6" aria-hidden="true">
      <rect class="track" width="64" height="6" rx="3" />
      ${share === null ? nothing : svg`<rect class="fill" width=${Math.max(2, full * 64)} height="6" rx="3" />`}
    </svg>
    <span class="percent" aria-hidden="true">${withText ? (share === null ? said : html`${percent} <span class="of">${said}</span>`) : percent}</span>
  </span>`;
}

export const tokens = ({ usage }) =>
  usage ? { input: sum([usage.uncached_input, usage.cache_read, usage.cache_write]), output: usage.output ?? 0, cached: usage.cache_read ?? 0 } : null;

export const errors = ({ counts }) =>
  sum([counts.tool_errors, counts.turns_error, counts.retries, counts.compactions_failed]);

/** What is wrong with a log, in words. */
const QUALITY = {
  fault: ["fault", "lines that could not be folded"],
  gap: ["gap", "gaps: events are missing"],
  seq_conflict: ["conflict", "lines that came again with another content"],
  replaced_utf8: ["bad UTF-8", "lines whose bytes were no UTF-8"],
  unknown_required_event: ["unknown event", "events of unknown types: what the model sees may be incomplete"],
  unannounced_call: ["unannounced call", "tool calls that no message announced"],
  result_dropped: ["dropped result", "second results of a call, left out"],
  dispatch_dropped: ["dropped call", "nested calls that fit nowhere, left out"],
  malformed: ["malformed", "events without what they are about"],
};

export function quality(overview) {
  const facts = Object.entries(overview.quality ?? {}).filter(([, count]) => count);
  if (!facts.length) return nothing;
  return html`<ul class="badges" aria-label="data quality">
    ${facts.map(([fact, count]) => {
      const reader = fact.startsWith("reader:");
      const [name, why] = QUALITY[fact] ?? [line(fact.replace("reader:", "reader ")), "met by this reader, refused by its reference"];
      return html`<li class="badge ${reader ? "reader" : ""}" title=${`${whole(count)}: ${why}`}>${name} ${whole(count)}</li>`;
    })}
  </ul>`;
}

export function facts(overview) {
  const { counts } = overview;
  const used = tokens(overview);
  const messages = sum([counts.user, counts.steering, counts.assistant]);
  return [
    ["messages", whole(messages), plural(messages, "message")],
    ["tools", `${whole(counts.tool_calls ?? 0)}${counts.tool_errors ? ` · ${whole(counts.tool_errors)} failed` : ""}`, "tool calls"],
    ["compactions", whole(counts.compactions_landed ?? 0), "compactions that landed"],
    ["tokens in", used ? short(used.input) : "?", used ? `${whole(used.input)} in, of these ${whole(used.cached)} from the cache` : "unknown"],
    ["tokens out", used ? short(used.output) : "?", used ? `${whole(used.output)} out` : "unknown"],
  ];
}
