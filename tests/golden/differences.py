"""Where we deliberately differ from the reference, and how our own value is asserted.

A finding may carry one of these numbers only after our value was found equal to the one that the
reference *model* (``model_*.py``, a second reading of the rules that shares no code with the fold)
works out from the log itself; nothing is skipped by name. ``pins.py`` besides says some of the
values by hand.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """What the reference does, what we do instead, and where our value comes from."""

    number: int
    title: str
    asserted: str


_TABLE = (
    (
        0,
        "the mapping: commands and markers follow transcript.json; an overview counts its own part",
        "model_commands; overview.figures from the cut on",
    ),
    (
        1,
        "reused call ids: a result joins the open call; the reference takes the last, or one node",
        "model_tools: call, time, status and result of every row",
    ),
    (
        2,
        "no look-ahead: a row is what a live reader has after the last event",
        "model_steps, model_tools, model_commands: read forwards only",
    ),
    (
        3,
        "two runs of one command id are two rows, and rows are in order",
        "model_commands: every run with its own outcome",
    ),
    (4, "a second message of a step keeps its own row", "model_steps: one row per append message"),
    (
        5,
        "a checkpoint without a compaction id makes a marker",
        "transcript.json shows it; model_commands where there is none",
    ),
    (
        6,
        "steering claims accumulate (the older client's rule)",
        "model_inputs: both inbox lists replayed",
    ),
    (
        7,
        "calls without a result that no append message announced are auxiliary",
        "model_tools: visibility",
    ),
    (8, "a second result of a call is dropped", "model_tools: dropped"),
    (
        9,
        "a marker's summary is the first it cites, else the only uncited one of its id",
        "model_commands: summary, its seq, item and token count",
    ),
    (
        10,
        "--strict refuses an unknown type that is not ignorable",
        "model_surface.verdict: prefix, reason, surface",
    ),
    (
        11,
        "a /compact is joined by its id or by the summary it names; proofs that disagree join none",
        "model_commands: joins, anchors, outcomes",
    ),
    (12, "both instruction kinds are labelled by their paths", "model_inputs.label"),
    (13, "flat legacy messages are wrapped and get an id", "surface.projected"),
    (14, "an interrupted row is shown even when blank", "model_steps: visibility"),
    (
        15,
        "a retry chain whose first attempt is not in the log has a row",
        "newest_right: the row's attempts are those of the log",
    ),
    (16, "a turn row counts no regenerated copies", "model_steps: figures"),
    (17, "pairs among the sources are ranges in every generation", "model_surface.ranges"),
    (
        18,
        "what only the session's own checks refuse is accepted, or refused at the same event",
        "verdicts: the event of the session's refusal",
    ),
    (
        19,
        "a closed turn is forgotten: late messages have no step timing, late results no call",
        "model_bounds, model_steps, model_tools",
    ),
    (20, "no turn-error for a turn that a crash cut", "newest_right: reason of the turn's end"),
    (
        21,
        "an attempt stands for its chunks: it has a row, which can be the closing one",
        "model_steps: rows by attempt",
    ),
    (22, "turn triggers are context rows", "newest_views: compared as context"),
    (23, "rules 9 and 13 to 16 of the surface are not checked", "model_surface.verdict"),
    (24, "of two faults of one event the first in our order is named", "model_surface.fault"),
    (
        25,
        "embedded streams are read for times and usage",
        "model_steps: stream_token, stream_usage",
    ),
)
DIFFERENCES = {number: Difference(number, *told) for number, *told in _TABLE}
