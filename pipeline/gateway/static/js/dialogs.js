/** What lies over the page: the keys, and logging in. */
import { html, nothing } from "../vendor/lit-html/lit-html.js";

const KEYS = [
  ["j  k", "next, previous row or session"],
  ["J  K", "next, previous turn"],
  ["g  G", "first, newest"],
  ["e", "open or close what is selected"],
  ["c", "copy a link to the selected row"],
  ["m", "what the model sees"],
  ["v", "what the model saw at the selected row"],
  ["[  ]", "previous, next session of the list"],
  ["/", "search"],
  ["Enter", "open the selected session"],
  ["Esc", "close, or back to all sessions"],
];

export function help(close) {
  return html`<div class="over" @click=${(event) => event.target === event.currentTarget && close()}>
    <div class="dialog" role="dialog" aria-modal="true" aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <dl class="keys">${KEYS.map(([keys, what]) => html`<div><dt>${keys.split("  ").map((key) => html`<kbd>${key}</kbd>`)}</dt><dd>${what}</dd></div>`)}</dl>
      <button class="button" @click=${close}>Close</button>
    </div>
  </div>`;
}

export function login(send, failed) {
  const submit = (event) => {
    event.preventDefault();
    send(new FormData(event.target).get("token").trim());
  };
  return html`<div class="over">
    <div role="dialog" aria-modal="true" aria-labelledby="login-title"><form class="dialog" @submit=${submit}>
      <h2 id="login-title">A token is needed</h2>
      <p>This gateway was started with <code>--token-file</code>. The token is kept in a cookie that no script can read.</p>
      <label>Token <input class="search" name="token" type="password" autocomplete="current-password" required autofocus /></label>
      ${failed ? html`<p class="note bad" role="alert">${failed}</p>` : nothing}
      <button class="button">Log in</button>
    </form></div>
  </div>`;
}
