"""What an overview says, in a few characters. What is not known is never shown as 0."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeAlias

from rich.text import Text

from pipeline.plain import visible_line

Overview: TypeAlias = dict[str, Any]

STALL_MS = 300_000  #: of silence, after which an open turn is called stalled, as the gateway does
STATES = ("running", "compacting", "idle", "failed", "interrupted", "parked")
TITLE_CHARS = 300
_STYLES = {
    "running": "green",
    "compacting": "magenta",
    "stalled": "yellow",
    "failed": "red",
    "interrupted": "yellow",
    "parked": "red",
}
_UNITS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def short(number: int | None) -> str:
    """Three digits or so: 950, 1.2k, 335k, 4.1M."""
    if number is None:
        return "?"
    for size, unit in _UNITS:
        if number >= size:
            shown = number / size
            return f"{shown:.1f}{unit}" if shown < 9.95 else f"{shown:.0f}{unit}"
    return str(number)


def age(time: int | None, now_ms: int) -> str:
    """How long ago; a log without a clock says 0."""
    if not time or time < 0:
        return "-"
    seconds = max(0, now_ms - time) // 1000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def clock(seconds: float) -> str:
    """Epoch seconds as a time of the day, UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S} UTC"


def state(overview: Overview, now_ms: int) -> Text:
    """``stalled`` is a judgement by the clock: the log only says that a turn is open."""
    name = str(overview["state"])
    last = overview["last_time"]
    if name in ("running", "compacting") and last and now_ms - last > STALL_MS:
        name = "stalled"
    return Text(visible_line(name), _STYLES.get(name, ""))


def title(overview: Overview) -> Text:
    """Its title; where it has none the first words or the id say which it is."""
    told = overview["title"] or overview.get("derived_title")
    shown = visible_line(str(told or overview["session"])[:TITLE_CHARS])
    return Text(shown, "" if told else "dim", no_wrap=True, overflow="ellipsis")


def tokens(overview: Overview) -> str:
    """In and out."""
    usage = overview["usage"] or {}
    taken = sum(usage.get(name) or 0 for name in ("uncached_input", "cache_read", "cache_write"))
    return f"{short(taken)}/{short(usage.get('output') or 0)}"


def context(overview: Overview) -> str:
    """How full it is; after a compaction nobody knows until the next step measures it."""
    used, window = overview["prompt_tokens"], overview["context_window"]
    if used is None:
        return "?"
    return f"{100 * used // window} %" if window else short(used)


def errors(overview: Overview) -> int:
    counts = overview["counts"]
    names = ("tool_errors", "turns_error", "retries", "compactions_failed")
    return sum(counts.get(name) or 0 for name in names)


def compactions(overview: Overview) -> int:
    """Those that landed."""
    return overview["counts"].get("compactions_landed") or 0


def summary(overview: Overview, now_ms: int) -> Text:
    """A session's line above its transcript."""
    facts = [
        visible_line(str(overview["model"] or "model ?")),
        f"context {context(overview)}",
        f"tokens {tokens(overview)}",
        f"{errors(overview)} errors",
        f"{compactions(overview)} compactions",
        f"seq {overview['seq']}",
    ]
    return Text("  ").join([state(overview, now_ms), Text(" · ".join(facts), "dim")])
