"""Queries and quotations give the same answers of a file and of the topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.readers.filters import FilterError
from operators.readers.references import Subject, address
from operators.session import Out, Session
from pipeline.commands import brokers
from pipeline.config import Config
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader, create_topics
from pipeline.readers import query
from pipeline.readers.asked import Asked, Wanted, everything, nothing
from pipeline.readers.logs import events_of, quoted
from pipeline.readers.parameters import EVENT_PARAMETERS, NONE, SESSION_PARAMETERS, clauses
from pipeline.simulate import simulate, write_session
from pipeline.topics import Names
from schemas.inbound import read_line
from schemas.outbound import encode, key_of, subject_of
from tests.operators.build import numbered
from tests.operators.readers import hostile
from tests.operators.records import call, checkpoint, result, say, user
from tests.pipeline.readers.calling import calling
from tests.strategies import any_logs, mutated, simulated_logs

NAMES = Names()
PARTITION = 1
HEADER = {"type": "session", "id": "s-1", "createdAt": 5, "cwd": "/w", "parentSession": "p"}
RECORDS = [
    user("find me"),
    say("there", calls=("a",)),
    call("a"),
    result("a", "FIND  me\ttoo"),
    user("ctx", source={"kind": "runtime-context"}),
    checkpoint(0, 3, [0, 1, 3]),
    user("last"),
]
LINES = [json.dumps(record).encode() for record in [HEADER, *numbered(RECORDS)]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s-1.jsonl"
    path.write_bytes(b"\n".join(LINES) + b"\n")
    return path


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> MemoryReader:
    """The session on a broker in memory, which is the one that is named."""
    broker = MemoryBroker()
    create_topics(broker, NAMES, 3)
    state, out = Session("s-1", 1), Out()
    stale = json.dumps({**numbered([user("of an older log")])[0], "seq": 3}).encode()
    broker.append(NAMES.of("events"), PARTITION, b"s-1", stale)
    for line in LINES:
        broker.append(NAMES.of("events"), PARTITION, b"other", line)
        broker.append(NAMES.of("events"), PARTITION, b"s-1", line, headers=[("epoch", b"1")])
        state.take(read_line(line), out)
    for change in out.changes(state):
        broker.append(NAMES.of(subject_of(change)), PARTITION, key_of(change), encode(change))
    made = MemoryReader(broker)

    @contextmanager
    def named(_: Config, *__: str) -> Iterator[MemoryReader]:
        yield made

    monkeypatch.setattr(brokers, "reader", named)
    return made


@pytest.fixture(params=["file", "topics"])
def log(request: pytest.FixtureRequest) -> Asked:
    made = Asked(everything, keep_lines=True, messages=True)
    if request.param == "file":
        return made.read_file(request.getfixturevalue("file"))
    reader = request.getfixturevalue("reader")
    return made.read_records(events_of(reader, NAMES, PARTITION), "s-1", 1)


def test_search(log: Asked) -> None:
    hits = list(query.search(log, {"text": ["Find Me"]}))
    assert [(hit.session, hit.seq, hit.surface) for hit in hits] == [
        ("s-1", 0, "shadowed"),
        ("s-1", 3, "shadowed"),
    ]
    assert [hit.seq for hit in query.search(log, {"seq": ["3.."], "type": ["user/message"]})] == [
        4,
        5,
        6,
    ]
    assert [hit.seq for hit in query.search(log, {}, limit=2)] == [0, 1]


def test_window_has_the_lines_as_they_were(log: Asked) -> None:
    shown = list(query.window(log, 3, 1))
    assert [each.seq for each in shown] == [2, 3, 4]
    assert [bytes(each.line) for each in shown] == LINES[3:6]
    assert list(query.window(log, 99, 1)) == []


def test_trace(log: Asked) -> None:
    told = query.trace(log, 3)
    assert told == query.Trace("s-1", 3, "tool/result", "shadowed", 5, (5,), ())
    told = query.trace(log, 5)
    assert told is not None
    assert (told.surface, told.replaced, told.chain) == ("current", (0, 1, 3), ())
    assert query.trace(log, 77) is None


def test_contexts_and_cuts(log: Asked) -> None:
    assert [(each.seq, each.state) for each in query.contexts(log)] == [(4, "alive"), (5, "alive")]
    assert query.surface_cuts(log).before == (True, True, True)


def test_a_quotation(log: Asked) -> None:
    made = quoted(log.surface_view, Subject("s-1", "l", "/w", 6))
    assert made is not None
    told = json.loads(made.data)["conversation"]
    assert [each["text"] for each in told] == ["framed", "last"]


def test_a_chain_goes_to_the_node_that_stands(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    records = numbered([user(), checkpoint(0, 0), checkpoint(1, 1)])
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    told = query.trace(Asked(query.trace_wants(0)).read_file(path), 0)
    assert told is not None
    assert (told.replaced_by, told.chain) == (1, (1, 2))


@given(hostile.logs | any_logs | mutated(simulated_logs))
def test_no_log_is_too_odd_to_be_asked(lines: list[bytes]) -> None:
    log = Asked(everything, keep_lines=True, messages=True)
    log.take_all(log.seen(enumerate(lines, 1)), [])
    for answer in (*query.search(log, {}), *query.contexts(log), query.surface_cuts(log)):
        assert msgspec.json.encode(answer)
    for event in log.taken:
        assert query.trace(log, event.seq)
    assert len(list(query.window(log, 20, 100))) <= len(log.taken)
    subject = Subject("s", "l", None, log.session.next_seq)
    assert quoted(log.surface_view, subject) is not None


def asked(lines: list[bytes], wanted: Wanted) -> Asked:
    log = Asked(wanted, keep_lines=True)
    log.take_all(log.seen(enumerate(lines, 1)), [])
    return log


@given(hostile.logs | simulated_logs, st.integers(0, 60), st.sampled_from([1, 3, 1000]))
def test_what_a_question_wants_is_all_that_its_answer_needs(
    lines: list[bytes], seq: int, limit: int
) -> None:
    whole = asked(lines, everything)
    for filters in ({}, {"surface": ["shadowed"], "seq": ["3.."]}, {"type": ["user/message"]}):
        wanted = asked(lines, query.search_wants(filters, limit))
        assert list(query.search(wanted, filters, limit)) == list(
            query.search(whole, filters, limit)
        )
    wanted = asked(lines, query.window_wants(seq, 4))
    assert list(query.window(wanted, seq, 4)) == list(query.window(whole, seq, 4))
    assert query.trace(asked(lines, query.trace_wants(seq)), seq) == query.trace(whole, seq)
    assert query.contexts(asked(lines, query.contexts_wants)) == query.contexts(whole)
    assert query.surface_cuts(asked(lines, nothing)) == query.surface_cuts(whole)


def test_only_what_is_wanted_is_kept(file: Path) -> None:
    log = Asked(query.search_wants({"text": ["find me"]}, 1), keep_lines=True).read_file(file)
    assert [event.seq for event in log.taken] == [0]
    assert list(log.lines) == [0]
    assert not log.rows()
    assert all(log.surface_view.message(seq) is None for seq in log.surface_view.nodes)


# --- parameters -----------------------------------------------------------------------------------


def test_parameters_become_clauses() -> None:
    given = {"seq": ["5..9", "..7"], "type": ["a", "b"], "text": None, "surface": []}
    assert clauses(EVENT_PARAMETERS, given) == [
        {"kind": "type", "values": ["a", "b"]},
        {"kind": "surface", "values": []},
        {"kind": "seq", "from": 5, "to": 9},
        {"kind": "seq", "to": 7},
    ]
    assert clauses(SESSION_PARAMETERS, {"parent": [NONE, "p"], "created": ["5"]}) == [
        {"kind": "parent", "values": [None, "p"]},
        {"kind": "created-at", "from": 5, "to": 5},
    ]


@pytest.mark.parametrize("given", [{"seq": ["a..b"]}, {"seq": ["1..2..3"]}, {"nope": ["1"]}])
def test_what_is_no_parameter_is_refused(given: dict[str, list[str]]) -> None:
    with pytest.raises(FilterError):
        clauses(EVENT_PARAMETERS, given)


# --- the commands ---------------------------------------------------------------------------------


run = pytest.fixture(calling)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("what", ["search", "trace", "window", "contexts", "cuts"])
def test_answers_are_the_same_from_file_and_topics(run: Any, file: Path, what: str) -> None:
    at = ["--at", "3"] if what in ("trace", "window") else []
    answers = [run("query", what, source, "--json", *at) for source in (str(file), "s-1")]
    assert answers[0][:2] == answers[1][:2]
    assert answers[0][0] == 0
    assert all(json.loads(line) for line in answers[0][1].splitlines())
    plain = run("query", what, str(file), *at)
    assert plain[0] == 0
    assert plain[1]


@pytest.mark.usefixtures("reader")
def test_reference_command(run: Any, file: Path) -> None:
    answers = [run("reference", source, "--json", "--label", "L") for source in (str(file), "s-1")]
    assert answers[0][:2] == answers[1][:2]
    told = json.loads(answers[0][1])
    assert list(told) == ["bytes", "data", "stats"]
    assert told["data"]["label"] == "L"
    assert told["data"]["capturedThroughSeq"] == 6
    assert told["stats"]["originalMessages"] == 2
    assert '"data":{"sessionId":"s-1"' in answers[0][1]
    assert run("reference", str(file), "--max-bytes", "10", "--json")[:2] == (0, "null\n")
    code, out, err = run("reference", str(file))
    assert (code, "framed" in out, "2 of 2 messages" in err) == (0, True, True)


@pytest.mark.usefixtures("reader")
def test_an_address_is_a_session(run: Any, file: Path) -> None:
    named = run("reference", address("s-1"), "--json")
    assert named[:2] == run("reference", "s-1", "--json")[:2]
    assert f"address: {address('s-1')}" in run("reference", str(file))[2]
    assert run("query", "cuts", address("s-1"))[0] == 0
    for wrong in ("dsh-session:", "dsh-session:ew", address("s-1") + "="):
        code, out, err = run("query", "cuts", wrong)
        assert (code, out, err.count("\n")) == (2, "", 1)
    code, _, err = run("reference", address("x/y"))
    assert (code, "session 'x/y' is not on the topics" in err) == (1, True)


@pytest.mark.usefixtures("reader")
def test_a_search_over_many(run: Any, tmp_path: Path, file: Path) -> None:
    root = tmp_path / "logs"
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
        (root / name / "log.jsonl").write_bytes(b"\n".join(LINES[1:]) + b"\n")
    words = ("--text", "find me", "--json")
    code, out, err = run("query", "search", str(root), "s-1", *words)
    hits = [json.loads(line) for line in out.splitlines()]
    assert [(hit["session"], hit["seq"]) for hit in hits] == [
        (name, seq) for name in ("a", "b", "s-1") for seq in (0, 3)
    ]
    assert (code, err.splitlines()[-1]) == (0, "6 events found")
    code, out, err = run("query", "search", str(root), str(file), *words, "--limit", "3")
    assert len(out.splitlines()) == 3
    assert err.splitlines()[-1] == "the first 3 events (--limit)"
    code, out, err = run("query", "search", str(tmp_path / "no.jsonl"), str(file), *words)
    assert (code, len(out.splitlines()), "no.jsonl: No such file" in err) == (0, 2, True)
    code, out, _ = run("query", "search", str(root), "--text", "find me")
    assert out.splitlines()[0].startswith("a         0  shadowed  user/message")
    (tmp_path / "empty").mkdir()
    assert run("query", "search", str(tmp_path / "empty"))[0] == 1


def test_nothing_is_found_nowhere(run: Any, tmp_path: Path) -> None:
    missing = tmp_path / "none.jsonl"
    for argv in (["query", "search"], ["query", "cuts"], ["reference"]):
        code, _, err = run(*argv, str(missing))
        assert code == 3
        assert "none.jsonl" in err


def test_wrong_usage_is_told_before_anything_is_read(run: Any, file: Path) -> None:
    for argv in (["--surface", "live"], ["--seq", "x"], ["--text", " "]):
        code, out, err = run("query", "search", str(file), *argv)
        assert (code, out) == (2, "")
        assert err.startswith("foldstream: ")
    assert run("query", "trace", str(file))[0] == 2
    assert run("query", "trace", str(file), "--at", "99")[0] == 1


def test_sessions_and_lineage_of_folders(run: Any, tmp_path: Path) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    for name, more in (("p", {}), ("c", {"parentSession": "p", "seedLength": 3})):
        header = {"type": "session", "id": name, "createdAt": 7, **more}
        (root / f"{name}.jsonl").write_bytes(json.dumps(header).encode() + b"\n")
    code, out, _ = run("query", "sessions", str(root), "--parent", NONE, "--json")
    assert code == 0
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["p"]
    code, out, _ = run("query", "lineage", "c", str(root))
    assert (code, out) == (0, "^ p\n= c\n")
    code, out, _ = run("query", "lineage", "p", str(root), "--json")
    assert [(kin["id"], kin["link"]) for kin in json.loads(out)["descendants"]] == [("c", "fork")]
    assert run("query", "lineage", "nobody", str(root))[0] == 1
    assert run("query", "sessions", str(tmp_path / "nowhere"))[0] == 1


@pytest.mark.usefixtures("reader")
def test_sessions_of_both(run: Any, file: Path) -> None:
    code, out, _ = run("query", "sessions", "--topics", str(file), "--json")
    assert code == 0
    told = [json.loads(line) for line in out.splitlines()]
    assert [(each["id"], each["live"], each["persisted"]) for each in told] == [("s-1", True, True)]
    assert run("query", "lineage", "s-1", "--topics")[:2] == (0, "? p (not among them)\n= s-1\n")


def test_simulated_sessions_can_be_asked_everything(run: Any, tmp_path: Path) -> None:
    session = simulate(3, events=80, shape="v4")
    path = write_session(tmp_path / "sims", session)
    for what in ("search", "contexts", "cuts"):
        assert run("query", what, str(path), "--json")[0] == 0
    assert run("reference", str(path), "--json")[0] == 0
    assert address(session.id).startswith("dsh-session:")
