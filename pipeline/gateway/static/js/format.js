/** Figures for a person. What is not known is null, and is never shown as 0. */

const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const WHOLE = new Intl.NumberFormat("en");
const DATE = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const LATEST = 8.64e15; // beyond it Date has no day

export const short = (number) => (Number.isFinite(number) ? SHORT.format(number) : "?");
export const whole = (number) => (Number.isFinite(number) ? WHOLE.format(number) : "?");
export const plural = (number, one, more = `${one}s`) => `${whole(number)} ${number === 1 ? one : more}`;

/** 0 is a log without a clock. */
const known = (time) => Number.isFinite(time) && time > 0 && time <= LATEST;
export const date = (time) => (known(time) ? DATE.format(time) : "time unknown");
export const clock = (time) => (known(time) ? CLOCK.format(time) : "");

export function duration(ms) {
  if (!Number.isFinite(ms)) return "?";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Between two times of a log; null if it does not say, never below 0. */
export const between = (from, to) => (known(from) && known(to) ? Math.max(0, to - from) : null);

export function age(time, now) {
  if (!known(time)) return "–";
  const s = Math.max(0, now - time) / 1000;
  if (s < 5) return "now";
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h`;
  if (s < 86_400 * 90) return `${Math.floor(s / 86_400)} d`;
  return new Date(time).toISOString().slice(0, 10);
}

/** The same in a sentence. */
export function ago(time, now) {
  const told = age(time, now);
  if (told === "–") return "at an unknown time";
  return told === "now" || now - time >= 86_400_000 * 90 ? told : `${told} ago`;
}

export const sum = (numbers) => numbers.reduce((a, b) => a + (Number.isFinite(b) ? b : 0), 0);
