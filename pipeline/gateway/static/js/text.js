/**
 * Hostile text as it may be shown. It only ever becomes text nodes; here it is kept from reordering,
 * hiding or steering what a person reads (the same characters as in a terminal: `plain.py`).
 */

// Controls but newline and tab, C1, bidirectional marks and isolates, zero width and invisible
// characters, separators, tags, unpaired halves.
const UNSAFE =
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Cs}/gu;
const PILE = /(\p{Mn}{4})\p{Mn}+/gu;
const COLOURS = /\x1b\[[0-9;:]*m/g;

/** Text of several lines. Terminal colours are left out, other controls are shown by name. */
export function visible(text) {
  const plain = text.replace(/\r\n?/g, "\n").replace(COLOURS, "");
  const shown = plain.replace(UNSAFE, name);
  return /^[\x00-\x7f]*$/.test(shown) ? shown : shown.replace(PILE, "$1");
}

/** The same on one line. */
export function line(text) {
  return visible(String(text)).replace(/\s+/g, " ").trim();
}

function name(found) {
  const code = found.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
  return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}

/** At most so many characters, and how many were left out. Never half of a pair. */
export function clip(text, most) {
  if (text.length <= most) return [text, 0];
  const half = (text.charCodeAt(most - 1) & 0xfc00) === 0xd800;
  const kept = half ? most - 1 : most;
  return [text.slice(0, kept), text.length - kept];
}

/** JSON for a person: a string that holds JSON is set out, any other stays as it is. */
export function pretty(text) {
  if (typeof text !== "string") return JSON.stringify(text, null, 2);
  try {
    const value = JSON.parse(text);
    // Numbers that a double would change are better shown as they were written.
    return /\d{16}/.test(text) || typeof value !== "object" ? text : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}
