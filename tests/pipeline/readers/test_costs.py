"""What sessions cost: from files and topics alike, each its own part, the sum that of the parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from operators.changes import UsageData
from operators.events import Usage
from operators.readers.lineage import SessionRecord
from operators.readers.money import Card, Rate
from operators.readers.usage import Billed, Route
from operators.session import Out, Session
from pipeline.readers import costs
from pipeline.readers.asked import Asked
from pipeline.simulate import simulate, write_session
from schemas.inbound import read_line
from tests.pipeline.readers.at_rest import on_topics
from tests.pipeline.readers.calling import calling

CARD = """
currency = "USD"
published = 2026-02-01
[[rate]]
provider = "deepseek"
model = "deepseek-chat"
since = 2025-09-05
input = "0.28"
output = "0.42"
cache_read = "0.028"
"""
FULL = Card("USD", "2026-02-01", (Rate("p", "m", 1_000_000, 2_000_000, 0),))
run = pytest.fixture(calling)


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "card.toml"
    path.write_text(CARD, "utf-8")
    return path


def record(name: str, **more: Any) -> SessionRecord:
    return SessionRecord(name, **more)


def test_a_session_and_the_sum() -> None:
    used = Billed(Usage(5, 3, 7, 2), Usage(1), 10, 20)
    one = costs.cost(record("a"), 9, [(Route("p", "m"), used)], FULL)
    assert (one.micro, one.unpriced, one.as_of_seq) == (6 + 6, 2, 9)
    (route,) = one.routes
    assert route.usage == UsageData(6, 3, 7, 2)
    assert route.reasons == ("the card has no price for cache write",)
    other = costs.cost(record("b", parent="a", seed_length=3), None, [(Route(), used)], FULL)
    assert (other.link, other.micro, other.unpriced) == ("fork", 0, 18)
    whole = costs.total([one, other, one], FULL)
    assert (whole.session, whole.sessions, whole.micro) == (None, 3, 24)
    assert [(r.provider, r.micro, r.unpriced) for r in whole.routes] == [
        (None, 0, 18),
        ("p", 24, 4),
    ]
    assert whole.tokens == 3 * 18


def test_without_a_card_all_is_unpriced_and_says_so() -> None:
    used = Billed(Usage(5, 3), Usage(), 10, 20)
    found = costs.cost(record("a"), 1, [(Route("p", "m"), used)], None)
    assert (found.currency, found.micro, found.unpriced) == (None, 0, 8)
    assert found.routes[0].reasons == (costs.NO_CARD,)
    assert costs.total([], None).routes == ()


counts = st.builds(Usage, *[st.integers(-(2**63), 2**63)] * 5)
billed = st.lists(
    st.tuples(
        st.builds(Route, st.sampled_from(["p", None]), st.sampled_from(["m", "n"])),
        st.builds(Billed, counts, counts, st.just(1), st.just(2)),
    ),
    max_size=4,
)


@given(st.lists(billed, max_size=4))
def test_any_figures_add_up_and_can_be_written(sessions: list[Any]) -> None:
    found = [costs.cost(record("s"), 0, each, FULL) for each in sessions]
    whole = costs.total(found, FULL)
    assert whole.micro == sum(each.micro for each in found) == sum(r.micro for r in whole.routes)
    assert whole.unpriced == sum(each.unpriced for each in found)
    assert 0 <= whole.unpriced <= whole.tokens
    assert json.loads(costs.as_json(whole))["micro"] == whole.micro


# --- the command ----------------------------------------------------------------------------------


def test_a_file_and_the_topics_cost_the_same(
    run: Any, tmp_path: Path, card: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = simulate(20, events=150, shape="v4")
    path = write_session(tmp_path / "logs", session)
    on_topics(monkeypatch, session.id, session.lines)
    flags = ("--rate-card", str(card), "--json")
    of_file = run("query", "cost", str(path), *flags)
    assert of_file == run("query", "cost", *flags)
    one, whole = map(json.loads, of_file[1].splitlines())
    assert one["session"] == session.id
    assert one["as_of_seq"] == Asked().read_file(path).session.as_of_seq
    assert (whole["session"], whole["sessions"], whole["micro"]) == (None, 1, one["micro"])
    assert one["micro"] > 0
    assert one["unpriced"] > 0
    assert run("query", "cost", str(path), "--topics", *flags)[1] == of_file[1]  # once, not twice


def test_an_overview_without_routes_is_unpriced_and_never_nothing() -> None:
    state, out = Session("s"), Out()
    for line in simulate(20, events=150, shape="v4").lines:
        state.take(read_line(line), out)
    overview = state.overview()
    known = costs.cost(record("s"), 0, costs.published(overview), None)
    older = replace(overview, billed=())
    found = costs.cost(record("s"), 0, costs.published(older), FULL)
    assert found.unpriced == found.tokens == known.tokens > 0


def family(root: Path) -> None:
    """p, its fork f, and a subagent of f; beside them a stranger."""
    parent = simulate(3, events=60, shape="v4")
    end = json.loads(parent.lines[-1])["seq"] + 1

    def put(name: str, lines: list[bytes], **header: Any) -> None:
        (root / name).mkdir(parents=True)
        told = json.loads(lines[0]) | {"id": name} | header
        text = b"\n".join([json.dumps(told).encode(), *lines[1:]]) + b"\n"
        (root / name / "log.jsonl").write_bytes(text)

    put("p", parent.lines)
    put("f", parent.lines, parentSession="p", seedLength=end)
    put("s", simulate(4, events=60, shape="v4").lines, parentSession="f", origin="subagent")
    put("x", simulate(5, events=60, shape="v4").lines)


def test_a_family(run: Any, tmp_path: Path, card: Path) -> None:
    root = tmp_path / "logs"
    family(root)
    code, out, _ = run("query", "cost", str(root), "--family", "p", "--json")
    told = {each["session"]: each for each in map(json.loads, out.splitlines())}
    assert (code, list(told)) == (0, ["p", "f", "s", None])
    assert [told[name]["link"] for name in "pfs"] == [None, "fork", "subagent"]
    assert told["f"]["routes"] == []  # all that it holds is its parent's
    assert told[None]["unpriced"] == told["p"]["unpriced"] + told["s"]["unpriced"] > 0
    code, out, _ = run("query", "cost", str(root), "--rate-card", str(card))
    assert (code, len(out.splitlines())) == (0, 7)
    assert out.splitlines()[4].startswith("4 sessions")
    assert "fork of p" in out
    assert "unpriced: the card has no price for cache write" in out
    assert run("query", "cost", str(root), "--family", "nobody")[0] == 1


def test_what_cannot_be_read_is_said(run: Any, tmp_path: Path, card: Path) -> None:
    root = tmp_path / "logs"
    family(root)
    (root / "twin.jsonl").write_bytes((root / "x" / "log.jsonl").read_bytes())
    (root / "no.jsonl").write_bytes(b"hello\n")
    code, out, err = run("query", "cost", str(root), "--json")
    assert (code, json.loads(out.splitlines()[-1])["sessions"]) == (0, 4)
    assert "session 'x' is read from" in err
    assert "is this a session log?" in err
    assert run("query", "cost", str(root / "no.jsonl"))[0] == 3
    assert run("query", "cost", str(root / "none.jsonl"))[0] == 1
    card.write_text("currency = 5", "utf-8")
    code, out, err = run("query", "cost", str(root), "--rate-card", str(card))
    assert (code, out, err.count("\n")) == (1, "", 1)
