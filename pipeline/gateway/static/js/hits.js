/** What a search found; each hit lands on its row. */
import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { plural } from "./format.js";
import { line, visible } from "./text.js";

export function hits(session) {
  const { found } = session;
  if (!found) return nothing;
  return html`<div class="hits" role="region" aria-label="search results">
    <p class="hits-head" role="status">${said(found)}<button class="quiet" aria-label="close the results" @click=${() => close(session)}>✕</button></p>
    ${found.hits?.length ? html`<ol tabindex="0">${found.hits.map((hit) => html`<li><a href=${session.link({ anchor_seq: hit.seq })} @click=${(event) => jump(event, hit, session)}>
      <span class="seq">${hit.seq}</span><span class="kind">${line(hit.kind)}</span><span class="hint" dir="auto">${visible(hit.before)}<mark>${visible(hit.match)}</mark>${visible(hit.behind)}</span>
    </a></li>`)}</ol>` : nothing}
  </div>`;
}

function said({ q, hits, next, failed }) {
  if (failed) return failed;
  if (!hits) return "searching …";
  return hits.length ? `${plural(hits.length, "row")}${next ? " and more" : ""} with “${line(q)}”` : `no row has “${line(q)}”`;
}

function jump(event, hit, session) {
  event.preventDefault();
  session.goTo(hit.seq);
}

function close(session) {
  session.found = null;
  session.app.changed();
}
