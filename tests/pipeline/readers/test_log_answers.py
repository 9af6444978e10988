"""A log folded with its readers: the reference's answers, and ours."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from hypothesis import given

from operators.readers import answers
from operators.text import to_json
from pipeline.readers.logs import Log
from pipeline.reading import Window
from pipeline.simulate import simulate
from schemas.inbound import read_line
from tests.operators.build import numbered
from tests.operators.readers import hostile
from tests.operators.records import say, user
from tests.strategies import any_logs, mutated, simulated_logs


def test_answers_of_a_fork_are_of_its_own_part(tmp_path: Path) -> None:
    header = {"type": "session", "id": "c", "seedLength": 1}
    path = tmp_path / "c.jsonl"
    records = numbered([user("of the parent", time=5), user("own", time=9), say(calls=("a",))])
    lines = [json.dumps(record).encode() for record in (header, *records)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    log = Log(readers=True).read_file(path)
    assert log.whole is not None
    assert log.own is not None
    told = answers.reference(log.whole, log.told())
    assert told["title"]["fallback"] == "of the parent"
    assert told["toolPairing"] == {"nodes": 3, "before": "111", "after": "110"}
    own = answers.own(log.own, log.told())
    assert own["derived_title"] == "own"
    assert own["pairing"]["waiting"] == 1


@given(hostile.logs | any_logs | mutated(simulated_logs))
def test_no_log_is_too_odd_for_its_readers(lines: list[bytes]) -> None:
    log = Log(readers=True)
    log.take_all(enumerate(lines, 1), [])
    assert log.whole is not None
    assert to_json(answers.reference(log.whole, log.told()))
    assert json.loads(msgspec.json.encode(log.read_document("-")))["readers"]


WRITE = "workspace-write"
NAMES = """
turns steps ttft_ms ttft_steps decode_ms decode_tokens reference_usage billed system_tokens
tools_tokens message_tokens surface_tokens metered_difference pressure_tokens projected_tokens
cache_breaks last_cache_break derived_title blank last_prompt_at goal todos plan permissions
subagent subagent_timing pairing contexts_alive contexts_shadowed runtime_context instructions
contexts all_cache_breaks sessionStats tokenUsage contextPressure contextBreakdown
contextBreakdownMetered measure title sessionListMetadata subagentTiming subagentIdentity
toolPairing documents injected
"""


def test_the_names_are_kept_and_those_of_the_reference_have_its_shapes(tmp_path: Path) -> None:
    """They are printed by ``fold --json --readers`` and read by scripts."""
    path = tmp_path / "s.jsonl"
    records = numbered([user("find \ud800 me"), say("x")])
    path.write_bytes(b"\n".join(json.dumps(record).encode() for record in records) + b"\n")
    log = Log(readers=True).read_file(path)
    told = json.loads(msgspec.json.encode(log.read_document("-")))
    assert list(told)[-1] == "readers"
    readers = told["readers"]
    assert sorted(readers) == sorted(NAMES.split())
    assert readers["documents"] == [[0, "C", "find \ud800 me"], [1, "C", "x"]]
    assert (readers["goal"], readers["permissions"]["current"]) == (
        {"value": None},
        "workspace-write",
    )
    assert readers["surface_tokens"] == readers["measure"]["surfaceTokens"] > 0
    assert readers["surface_tokens"] == told["overview"]["surface_tokens"]


def test_readers_of_a_window_are_those_of_a_file_with_its_events_alone() -> None:
    lines = simulate(5, events=120, shape="v1").lines
    window = Window(20, 80)
    log, plain = Log(window, readers=True), Log(readers=True)
    log.take_all(enumerate(lines, 1), [])
    kept = [clipped for line in map(read_line, lines) if (clipped := window.clip(line)) is not None]
    for number, line in enumerate(kept, 1):
        plain.take(number, line)
    assert log.answers() == plain.answers()
