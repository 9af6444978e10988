"""What a log may hold, through the commands: odd numbers, unknown buckets, circles, lost parents,
ten thousand children, titles that steer a terminal. Answers come, and none of it is obeyed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pipeline.plain import visible
from tests.operators.build import numbered
from tests.operators.records import user
from tests.pipeline.readers.calling import Call, calling

HEADER = {"type": "session", "version": 0, "createdAt": 5, "cwd": "/w", "delegationDepth": 0}
STEERING = "\x1b]0;owned\x07\x1b[31mred\u202e\u0085\x00\ttab\nend"
ALL = ("search", "contexts", "cuts")
run = pytest.fixture(calling)


def put(root: Path, name: str, header: dict[str, Any] | str, rows: Iterable[str] = ()) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    first = header if isinstance(header, str) else json.dumps({**HEADER, "id": name, **header})
    path = folder / "log.jsonl"
    path.write_text("\n".join([first, *rows]) + "\n", "utf-8")
    return path


def lines(*records: dict[str, Any]) -> list[str]:
    return [json.dumps(record) for record in numbered(list(records))]


def harmless(text: str) -> bool:
    """Whether nothing in it is for a terminal to obey."""
    return visible(text) == text


# --- numbers --------------------------------------------------------------------------------------

USAGES = [
    '{"inputTokens":-5,"outputTokens":3}',
    '{"inputTokens":1.5}',
    '{"inputTokens":1e400,"outputTokens":-1e400}',
    '{"inputTokens":99999999999999999999999999}',
    '{"inputTokens":9007199254740993,"cacheReadTokens":1e18}',
    '{"inputTokens":"7","outputTokens":null,"cacheWriteTokens":[1]}',
    '{"gold":7,"inputTokens":4,"tokens":{"input":9}}',
    "{}",
    "[]",
    "7",
    "null",
]


def spending(usages: Iterable[str]) -> list[str]:
    """Answers of a step each, that report those usages."""
    route = {"provider": "p", "model": "m"}
    rows = [json.dumps({"type": "request/header", "seq": 0, "time": 1, "data": {"header": route}})]
    for at, usage in enumerate(usages, 1):
        text = (
            '{"type":"assistant/message","seq":%d,"time":%d,"surfaceOp":"append","data":{"turn":1,'
            '"step":%d,"message":{"id":"a%d","role":"assistant","content":[{"type":"text","text":'
            '"hi"}]},"usage":%s}}'
        )
        rows.append(text % (at, at, at, at, usage))
    return rows


@pytest.mark.parametrize("usage", USAGES)
def test_odd_usage_never_costs_less_than_nothing(run: Call, tmp_path: Path, usage: str) -> None:
    """An answer after it is billed as if nothing had been."""
    card = tmp_path / "card.toml"
    rate = 'provider = "p"\nmodel = "m"\ninput = 1\noutput = 2\ncache_read = 0\ncache_write = 0\n'
    card.write_text(f'currency = "USD"\npublished = 2026-02-01\n[[rate]]\n{rate}')
    path = put(tmp_path, "s", {}, spending([usage, '{"outputTokens":1000000}']))
    code, out, err = run("query", "cost", str(path), "--rate-card", str(card), "--json")
    told = json.loads(out.splitlines()[-1])
    assert (code, "Traceback" in err) == (0, False)
    assert told["micro"] >= 0
    assert told["micro"] + told["unpriced"] >= 1_000_000
    assert 0 <= told["unpriced"] <= told["tokens"]
    assert run("query", "cost", str(path))[0] == 0
    for asked in ALL:
        assert run("query", asked, str(path), "--json")[0] == 0
    assert json.loads(run("reference", str(path), "--json")[1])["stats"]["retainedMessages"] == 2


def test_an_unknown_bucket_is_no_token(run: Call, tmp_path: Path) -> None:
    path = put(tmp_path, "s", {}, spending(['{"gold":7,"inputTokens":4}']))
    _, out, _ = run("query", "cost", str(path), "--json")
    assert json.loads(out.splitlines()[-1])["tokens"] == 4


@pytest.mark.parametrize(
    "number", ["-5", "1.5", "1e400", "9" * 400, '"x"', "null", "true", "[1]", "{}"]
)
def test_odd_headers_are_listed(run: Call, tmp_path: Path, number: str) -> None:
    fields = ("createdAt", "seedLength", "delegationDepth", "parentSession", "version")
    odd = ",".join(f'"{field}":{number}' for field in fields)
    put(tmp_path / "logs", "odd", f'{{"type":"session","id":"odd","cwd":{number},{odd}}}')
    put(tmp_path / "logs", "well", {"parentSession": "odd"})
    code, out, _ = run("query", "sessions", str(tmp_path / "logs"), "--json")
    assert (code, {json.loads(line)["id"] for line in out.splitlines()}) == (0, {"odd", "well"})
    code, out, _ = run("query", "lineage", "odd", str(tmp_path / "logs"), "--json")
    assert [kin["id"] for kin in json.loads(out)["descendants"]] == ["well"]
    assert run("query", "cost", str(tmp_path / "logs"), "--json")[0] == 0


@pytest.mark.parametrize(
    "argv",
    [
        ("query", "trace", "--at", "-1"),
        ("query", "trace", "--at", "1.5"),
        ("query", "trace", "--at", str(2**53)),
        ("query", "trace", "--at", "9" * 5000),
        ("query", "window", "--at", "0", "--around", "-1"),
        ("query", "search", "--limit", "0"),
        ("query", "search", "--seq", "9..1"),
        ("query", "search", "--time", "1e400"),
        ("query", "search", "--seq", "9" * 5000),
        ("reference", "--max-bytes", "-1"),
        ("reference", "--max-bytes", "NaN"),
    ],
)
def test_odd_numbers_of_a_user_are_wrong_usage(
    run: Call, tmp_path: Path, argv: tuple[str, ...]
) -> None:
    path = put(tmp_path, "s", {}, lines(user("a")))
    code, out, err = run(*argv, str(path))
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("size", ["0", "1", str(10**30)])
def test_any_budget_has_an_answer(run: Call, tmp_path: Path, size: str) -> None:
    path = put(tmp_path, "s", {}, lines(user("a")))
    code, out, _ = run("reference", str(path), "--max-bytes", size, "--json")
    assert (code, out == "null\n") == (0, len(size) == 1)


# --- families -------------------------------------------------------------------------------------


@pytest.fixture
def kin(tmp_path: Path) -> Path:
    """Three in a circle and one below it, one that is its own parent, one whose parent is lost."""
    root = tmp_path / "kin"
    for name, parent in ("ab", "bc", "ca", "xa", "ss", "o?"):
        put(root, name, {"parentSession": parent})
    return root


@pytest.mark.parametrize(
    ("session", "way_up"),
    [
        ("a", "! a circle: a comes from itself\n^ c\n^ b\n= a\n"),
        ("x", "! a circle: a comes from itself\n^ c\n^ b\n^ a\n= x\n"),
        ("s", "! a circle: s comes from itself\n= s\n"),
        ("o", "? ? (not among them)\n= o\n"),
    ],
)
def test_circles_and_lost_parents_are_said(run: Call, kin: Path, session: str, way_up: str) -> None:
    code, out, _ = run("query", "lineage", session, str(kin))
    assert code == 0
    assert out.startswith(way_up)


def test_a_circle_costs_each_of_its_sessions_once(run: Call, kin: Path) -> None:
    _, out, _ = run("query", "cost", str(kin), "--family", "a", "--json")
    assert [json.loads(line)["session"] for line in out.splitlines()] == ["a", "c", "b", "x", None]


def flat(root: Path, name: str, parent: str) -> None:
    header = {**HEADER, "id": name, "parentSession": parent}
    (root / f"{name}.jsonl").write_text(json.dumps(header) + "\n")


def test_ten_thousand_children(run: Call, tmp_path: Path) -> None:
    put(tmp_path, "top", {})
    for at in range(10_000):
        flat(tmp_path, f"c{at:05}", "top")
    code, out, err = run("query", "lineage", "top", str(tmp_path))
    told = out.splitlines()
    assert (code, told[0], told[1], told[-1]) == (
        0,
        "= top",
        "  c00000 (child)",
        "  c09999 (child)",
    )
    assert len(told) == 10_001
    assert "reading: 10001 sessions" in err


def test_a_long_chain_is_neither_a_stack_nor_a_wide_line(run: Call, tmp_path: Path) -> None:
    put(tmp_path, "top", {})
    for at in range(1_500):
        flat(tmp_path, f"d{at:05}", f"d{at - 1:05}" if at else "top")
    code, out, _ = run("query", "lineage", "top", str(tmp_path))
    assert (code, len(out.splitlines())) == (0, 1_501)
    assert out.splitlines()[-1].strip() == "[1500] d01499 (child)"
    assert max(map(len, out.splitlines())) < 100
    code, out, _ = run("query", "lineage", "d01499", str(tmp_path), "--json")
    assert (code, len(json.loads(out)["ancestors"])) == (0, 1_500)


# --- texts that steer -----------------------------------------------------------------------------


def steering(root: Path) -> Path:
    source = {"kind": "plugin", "plugin": STEERING, "form": STEERING}
    header = {"id": STEERING, "cwd": STEERING, "parentSession": STEERING + "p"}
    title = {"type": "session/title", "data": {"title": STEERING, "messageSeqs": [0]}}
    todo = {"type": "todo/write", "data": {"todos": [{"content": STEERING, "status": STEERING}]}}
    other = {"type": STEERING, "data": {}, "ignorable": True}
    rows = lines(user(STEERING), title, user("x", source=source), todo, other)
    return put(root, "s", header, rows)


@pytest.mark.parametrize(
    "argv",
    [
        ("query", "search"),
        ("query", "search", "--text", "red"),
        ("query", "window", "--at", "2"),
        ("query", "trace", "--at", "4"),
        ("query", "contexts"),
        ("query", "cuts"),
        ("query", "sessions"),
        ("query", "cost"),
        ("reference",),
        ("reference", "--label", STEERING),
    ],
)
def test_nothing_that_is_shown_steers_a_terminal(
    run: Call, tmp_path: Path, argv: tuple[str, ...]
) -> None:
    path = steering(tmp_path)
    code, out, err = run(*argv, str(path))
    assert (code, bool(out)) == (0, True)
    assert harmless(out)
    assert harmless(err)
    code, out, _ = run(*argv, str(path), "--json")
    assert code == 0
    assert all(json.loads(line) for line in out.rstrip("\n").split("\n"))  # to a script: as it was


def test_a_lineage_does_not_steer_either(run: Call, tmp_path: Path) -> None:
    steering(tmp_path)
    code, out, err = run("query", "lineage", STEERING, str(tmp_path))
    assert (code, harmless(out), harmless(err)) == (0, True, True)
    code, out, err = run("query", "lineage", STEERING + "nobody", str(tmp_path))
    assert (code, harmless(err), err.count("\n")) == (1, True, 1)


def test_halves_of_surrogates_are_no_crash(run: Call, tmp_path: Path) -> None:
    text = (
        '{"type":"session","version":0,"id":"\\ud800x","cwd":"\\udc00","parentSession":"\\ud83d"}'
    )
    rows = [json.dumps(row) for row in numbered([user("a\ud800b")])]
    put(tmp_path / "logs", "s", text, rows)
    for argv in (("sessions",), ("cost",), ("search",), ("lineage", "\ufffdx")):
        code, out, _ = run("query", *argv, str(tmp_path / "logs"), "--json")
        assert code == 0, argv
        assert "\ufffdx" in out
    code, out, _ = run("reference", str(tmp_path / "logs"), "--json")
    assert json.loads(out)["data"]["sessionId"] == "\ufffdx"
