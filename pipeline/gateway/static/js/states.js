/** How a session stands, in one word. */
import { plural } from "./format.js";

const STALL = 300_000; // ms of silence after which an open turn is called stalled, as the gateway does

export const STATES = ["running", "compacting", "idle", "failed", "interrupted", "parked"];

/** `{name, said}`; `stalled` is a judgement by the clock: the log only says that a turn is open. */
export function stateOf(overview, now) {
  const { state, last_time } = overview;
  const open = state === "running" || state === "compacting";
  const silent = last_time > 0 && now - last_time > STALL;
  if (open && (silent || overview.stalled)) return { name: "stalled", said: "stalled" };
  return { name: STATES.includes(state) ? state : "other", said: String(state) };
}

/** What a person has not seen of a session, as counts of rows. */
export const seenRows = ({ counts }) =>
  ["user", "steering", "assistant", "tool_calls", "commands", "compactions_landed"].reduce((sum, name) => sum + (counts[name] ?? 0), 0);

export const unreadText = (count) => plural(count, "new row");
