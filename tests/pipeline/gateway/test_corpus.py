"""Faults that viewers of agent sessions are known for, as a client of the gateway meets them.

Each test is named by the number that the fault has in the project's corpus of public bug reports;
those of the fold are in `tests/operators/test_corpus.py`, `tests/test_corpus_numbers.py` knows all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.gateway import pages, sessions
from pipeline.gateway.frames import Current
from pipeline.gateway.hub import Hub, Limits
from pipeline.gateway.pages import Budget
from pipeline.gateway.protocol import Answered, answer
from pipeline.simulate import simulate
from schemas.deadletter import decode_dead_letter
from tests.operators.build import numbered
from tests.operators.records import (
    Json,
    call,
    result,
    say,
    spent,
    step_end,
    step_start,
    turn_end,
    turn_start,
    user,
)
from tests.operators.test_corpus import COMPACTED, CRASHED
from tests.pipeline.gateway.asking import Client, lines_of
from tests.pipeline.gateway.live import (
    OFFSETS,
    FixedCut,
    at,
    committed,
    kinds,
    row,
    take_all,
    watching,
)
from tests.pipeline.gateway.stage import Stage

S = "/v1/sessions/s"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def client(stage: Stage) -> Client:
    return Client(stage)


def play(stage: Stage, *records: Json, session: str = "s", first: int = 0) -> None:
    """Log, fold and read them."""
    stage.feed(lines_of(session, numbered(records, first)))
    stage.run()
    stage.read_on()


def walk(client: Client, url: str) -> list[Any]:
    """The rows of all pages from the newest to the oldest, in the order of the log."""
    page = client.json(url)
    rows = list(page["rows"])
    while page["older"]:
        page = client.json(page["older"])
        rows[:0] = page["rows"]
    return rows


# --- pages ----------------------------------------------------------------------------------------


def test_corpus_02_a_page_cut_inside_of_a_compaction_keeps_its_marker_whole(
    stage: Stage, client: Client
) -> None:
    play(stage, *COMPACTED, user("later", id_="m-9"))
    older = client.json(f"{S}/transcript?before=7")
    newer = client.json(f"{S}/transcript?after=6")
    assert "compaction" not in [each["kind"] for each in older["rows"] if not each["deleted"]]
    (marker,) = [each for each in newer["rows"] if each["kind"] == "compaction"]
    assert (marker["anchor_seq"], marker["data"]["summary"]) == (7, "what was said")
    assert [each["anchor_seq"] for each in walk(client, f"{S}/transcript?max_messages=1")] == [
        each["anchor_seq"] for each in older["rows"] + newer["rows"]
    ]


def test_corpus_20_a_page_and_its_figures_are_of_one_moment(stage: Stage, client: Client) -> None:
    play(stage, user("a"), say("b"))
    with stage.store.read() as connection:
        held = sessions.find(connection, "s")
        play(stage, user("c", id_="c"), say("d"), first=2)
        page = pages.rows_before(connection, "s", 0, None, Budget())
        assert held is not None
        assert held == sessions.find(connection, "s")
    newest = max(json.loads(bytes(each))["rev"] for each in page.rows)
    assert newest == sessions.as_of(held) == 1
    tail = client.json(f"{S}/transcript")
    assert tail["as_of_seq"] == tail["overview"]["as_of_seq"] == 3


def test_corpus_22_tools_use_up_no_page(stage: Stage, client: Client) -> None:
    tools = [each for n in range(60) for each in (call(f"t{n}"), result(f"t{n}"))]
    names = tuple(f"t{n}" for n in range(60))
    asked = [user("before", id_="0"), turn_start(), user("go"), step_start()]
    play(stage, *asked, say(calls=names), *tools, step_end(), say("done", step=2), turn_end())
    page = client.json(f"{S}/transcript?max_messages=2&max_bytes=4194304")
    of = [each["kind"] for each in page["rows"]]
    assert (of.count("assistant"), of.count("tool"), of.count("user")) == (2, 60, 0)
    assert page["has_more"]


def test_corpus_23_a_page_is_bounded_in_bytes_and_never_empty(stage: Stage, client: Client) -> None:
    large = "x" * 3_000_000
    play(stage, *(user(f"{n} " + "y" * 9_000, id_=str(n)) for n in range(49)), turn_start(),
         say("", calls=("a",)), call("a"), result("a", large))  # fmt: skip
    limit = 256 * 1024
    page = client.json(f"{S}/transcript?max_messages=50&max_bytes={limit}")
    assert page["has_more"]
    assert sum(len(json.dumps(each)) for each in page["rows"]) <= limit
    (tool,) = [each for each in page["rows"] if each["kind"] == "tool"]
    left = tool["data"]["content"]
    assert left["bytes"] > 3_000_000
    assert len(left["preview"]) == 512
    assert client.json(f"{S}/bodies/{left['ref'].replace('/', '%2F')}")[0]["text"] == large
    tiny = client.json(f"{S}/transcript?max_bytes=1")
    assert len(tiny["rows"]) >= 1
    assert len({each["key"] for each in walk(client, f"{S}/transcript?max_bytes=20000")}) >= 50


def test_corpus_25_a_message_that_cites_very_many_events(stage: Stage, client: Client) -> None:
    cited = list(range(200_000))
    message = {**say("built from chunks"), "sourceEventSeqs": cited, "seq": 200_000}
    play(stage, user("go", seq=199_999), message)
    page = client.json(f"{S}/events?max_messages=1")
    assert (page["first"], page["last"]) == (199_999, 200_000)
    assert client.json(f"{S}/transcript?max_messages=1")["rows"][-1]["kind"] == "assistant"


def test_corpus_26_two_events_of_one_millisecond_are_two(stage: Stage, client: Client) -> None:
    play(stage, *(user(str(n), id_=str(n), time=1_000) for n in range(7)))
    for limit in (1, 2, 3):
        rows = walk(client, f"{S}/transcript?max_messages={limit}")
        assert [each["anchor_seq"] for each in rows] == list(range(7))


def test_corpus_31_totals_are_of_the_whole_session_whatever_is_shown(
    stage: Stage, client: Client
) -> None:
    turns = [
        each
        for n in range(1, 61)
        for each in (turn_start(n), user(str(n), id_=str(n)), step_start(1, n),
                     say("x", turn=n, usage=spent(2)), step_end(1, n), turn_end(n))
    ]  # fmt: skip
    play(stage, *turns)
    shown = client.json(f"{S}/transcript?max_messages=2")
    totals = shown["overview"]
    assert (totals["turns"], totals["steps"], totals["usage"]["output"]) == (60, 60, 120)
    assert client.json(S)["counts"] == totals["counts"]
    page = client.json(shown["older"])
    while page["older"]:
        page = client.json(page["older"])
    again = client.json(f"{S}/transcript?max_messages=2")["overview"]
    assert again == totals


def test_corpus_41_the_first_page_of_a_huge_session_is_small(stage: Stage, client: Client) -> None:
    block = "".join(f"line {n}\n" for n in range(600_000))
    play(stage, *(user(f"{n} " + "z" * 400, id_=str(n)) for n in range(1_500)), turn_start(),
         say("", calls=("a",)), call("a"), result("a", block))  # fmt: skip
    answered = client.get(f"{S}/transcript?max_messages=1000")
    assert answered.status_code == 200
    assert len(answered.content) <= 256 * 1024 + 16 * 1024
    surface = client.get(f"{S}/surface?messages=false")
    assert len(surface.json()["nodes"]) == 1_502


def test_corpus_49_keys_are_opaque_and_seqs_are_whole_numbers(stage: Stage, client: Client) -> None:
    play(stage, turn_start(), user("a"), say("b"), turn_end())
    rows = client.json(f"{S}/transcript")["rows"]
    (turn,) = [each for each in rows if each["kind"] == "turn"]
    assert isinstance(turn["anchor_seq"], int)
    assert client.json(f"{S}/rows/{turn['key']}") == turn
    linked = client.json(f"{S}/transcript?around={turn['anchor_seq']}")["rows"]
    assert turn in linked
    for path in ("transcript?around=2.9", "transcript?before=seq-0.9", "surface?at=1.5"):
        assert client.get(f"{S}/{path}").status_code == 400


# --- sessions -------------------------------------------------------------------------------------


def test_corpus_11_a_log_without_a_header_stands_in_nobodys_way(
    stage: Stage, client: Client
) -> None:
    for name in ("one", "two"):
        header = {"type": "session", "version": 4, "id": name, "createdAt": 1}
        stage.feed(lines_of(name, [header, *numbered([user(name)])]))
    stage.feed([("three", b"{not json"), *lines_of("three", numbered([user("three")]))])
    stage.run()
    stage.read_on()
    listed = client.json("/v1/sessions")["sessions"]
    assert {each["session"] for each in listed} == {"one", "two", "three"}
    (third,) = [each for each in listed if each["session"] == "three"]
    assert third["quality"]["fault"] == 1
    for name in ("one", "two", "three"):
        assert len(client.json(f"/v1/sessions/{name}/transcript")["rows"]) == 1


def test_corpus_13_a_newer_generation_takes_the_place_of_the_older(
    stage: Stage, client: Client
) -> None:
    old, new = simulate(4, events=120, shape="v0"), simulate(4, events=120, shape="v3")
    for epoch, log in enumerate((old, new)):
        stage.feed([("s", line) for line in log.lines[1:]], epoch=epoch)
        stage.run()
        stage.read_on()
    alone = Stage(stage.path.parent / "alone")
    alone.path.parent.mkdir()
    alone.feed([("s", line) for line in new.lines[1:]])
    alone.run()
    alone.read_on()
    found, right = client.json(S), Client(alone).json(S)
    assert (found["epoch"], right["epoch"]) == (1, 0)
    for name in ("usage", "counts", "turns", "next_seq", "quality"):
        assert found[name] == right[name]
    unknown = {"type": "session", "version": 99, "id": "later", "createdAt": 1}
    stage.feed(lines_of("later", [unknown, *numbered([user("hi")])]))
    stage.run()
    stage.read_on()
    assert client.json("/v1/sessions/later")["counts"]["user"] == 1  # read by its shape


def test_corpus_29_a_silent_turn_is_stalled_and_then_interrupted(
    stage: Stage, client: Client
) -> None:
    play(stage, *CRASHED)
    assert (client.json(S)["state"], client.json(S)["stalled"]) == ("running", True)
    play(stage, turn_end(reason="interrupted"), first=len(CRASHED))
    assert (client.json(S)["state"], client.json(S)["stalled"]) == ("interrupted", False)


def test_corpus_36_a_child_whose_parent_comes_later(stage: Stage, client: Client) -> None:
    def header(name: str, **more: Any) -> Json:
        return {"type": "session", "version": 4, "id": name, "createdAt": 1, **more}

    child = header("child", parentSession="parent", origin="subagent")
    stage.feed(lines_of("child", [child, *numbered([user("x")])]))
    stage.run()
    stage.read_on()
    orphan = client.json("/v1/sessions/child/query/lineage")
    assert (orphan["complete"], orphan["unresolved"]) == (False, "parent")
    stage.feed(lines_of("parent", [header("parent"), *numbered([user("y")])]))
    stage.run()
    stage.read_on()
    found = client.json("/v1/sessions/child/query/lineage")
    assert (found["complete"], found["root"], found["unresolved"]) == (True, "parent", None)
    (kin,) = client.json("/v1/sessions/parent/query/lineage")["descendants"]
    assert (kin["id"], kin["link"]) == ("child", "subagent")


def test_corpus_38_half_a_character_is_replaced_on_its_way_out_alone(
    stage: Stage, client: Client
) -> None:
    play(stage, user("ok \ud83d"), say("\ud83d\ude00"))
    for path in ("transcript", "surface", "events", "export?format=jsonl", "reference"):
        said = client.get(f"{S}/{path}").content.decode("utf-8")
        assert "ok \ufffd" in said
        assert "\U0001f600" in said or "\\ud83d\\ude00" in said
    kept = stage.read("events")[0].value
    assert kept is not None
    assert rb"ok \ud83d" in kept


def test_corpus_40_a_poison_record_is_set_aside_with_its_place(
    stage: Stage, client: Client
) -> None:
    stage.feed(lines_of("s", numbered([user("before")])))
    stage.feed([("s", b"\xff\xfe{")])
    stage.feed(lines_of("s", numbered([say("after")], 2)))
    stage.run()
    stage.read_on()
    (letter,) = stage.read("deadletter")
    assert letter.value is not None
    told = decode_dead_letter(letter.value)
    assert (told.offset, told.value) == (1, b"\xff\xfe{")
    of = {each["kind"]: each for each in client.json(f"{S}/transcript")["rows"]}
    assert (of["gap"]["data"]["first"], of["gap"]["data"]["last"]) == (1, 1)
    assert of["assistant"]["anchor_seq"] == 2


def test_corpus_47_counts_are_of_all_sessions_and_a_bad_one_is_one(
    stage: Stage, client: Client
) -> None:
    count = 2_300
    stage.feed(
        (f"s{n}", line) for n in range(count) for _, line in lines_of("", numbered([user("x")]))
    )
    stage.feed([("s7", b"{}")])
    stage.run(batch=2_000)
    stage.read_on()
    first = client.json("/v1/sessions?limit=500")
    assert first["counts"] == {"idle": count}
    seen, page = [each["session"] for each in first["sessions"]], first
    while page["next"]:
        page = client.json(f"/v1/sessions?limit=500&after={page['next']}")
        seen += [each["session"] for each in page["sessions"]]
    assert len(seen) == len(set(seen)) == count
    assert client.json("/v1/sessions/s7")["quality"] == {"fault": 1}


# --- streams --------------------------------------------------------------------------------------


def test_corpus_37_a_family_is_told_to_any_depth_and_nothing_is_left_over() -> None:
    hub = Hub(OFFSETS)
    watcher = watching(hub, "root", "child", "grandchild")
    for n, session in enumerate(("root", "child", "grandchild") * 50):
        hub.feed(committed(row(f"user:{n}", n + 20, session=session, offset=n + 20)))
        hub.flush(0.0)
    told = [each["session"] for each in take_all(watcher) if each["t"] == "row"]
    assert told == ["root", "child", "grandchild"] * 50
    assert (watcher.frames, watcher.bytes, watcher.waits) == (0, 0, False)


def test_corpus_42_one_that_never_reads_holds_a_mebibyte_at_most() -> None:
    limits = Limits()
    hub = Hub(OFFSETS, limits)
    frozen, well = watching(hub, "s"), watching(hub, "s")
    body = {"text": "x" * 1_000}
    most = heard = 0
    for n in range(20_000):
        hub.feed(committed(row(f"user:{n}", n + 20, offset=n + 20, more=body)))
        hub.flush(float(n) / 100)
        most = max(most, frozen.bytes)
        heard += sum(each["t"] == "row" for each in take_all(well))
    assert 0 < most <= limits.bytes
    assert heard == 20_000
    assert kinds(take_all(frozen)) == ["resync"]
    idle = watching(hub, "s")
    for n in range(2_000):
        hub.feed(committed(row(f"user:{n}", n + 40_000, offset=n + 40_000, more=body)))
        hub.flush(300.0)
    assert idle in hub.sweep(300.0 + limits.stalled_s)
    assert kinds(take_all(idle)) == ["bye"]


def test_corpus_45_a_session_at_rest_is_resumed_without_a_word_of_the_past() -> None:
    """No log says that it is the last of its session: a stream of one that rests stays, quiet."""
    found = answer(FixedCut([]), "s", "transcript", at())
    assert isinstance(found, Answered)
    assert found.frames == (Current("s", 0),)
