/** Templates without a browser: what lit-html would be given, as text. */

globalThis.document ??= { createTreeWalker: () => ({}), createComment: () => ({}) };

const { nothing } = await import("../../pipeline/gateway/static/vendor/lit-html/lit-html.js");

/** The markup and values of a template, in order; functions and what is nothing leave no text. */
export function flat(value) {
  if (value === nothing || value === null || value === undefined || value === false) return "";
  if (Array.isArray(value)) return value.map(flat).join("");
  if (typeof value === "function") return "";
  if (value.strings) return value.strings.map((text, at) => text + (at in value.values ? flat(value.values[at]) : "")).join("");
  if (value.values) return flat(value.values.at(-1)?.() ?? ""); // a directive: guard's template
  return String(value);
}

/** The text alone, as it would be read. */
export const words = (value) => flat(value).replace(/<[^>]*>/g, " ").replace(/\s+/g, " ").trim();
