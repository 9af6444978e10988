"""The examples of ``query`` and ``reference``, in the README and in ``--help``, run as printed."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import cli
from pipeline.simulate import simulate
from tests.pipeline.readers.at_rest import on_topics
from tests.pipeline.readers.calling import Call, calling

ROOT = Path(__file__).parents[3]
SESSION = "0197f3a2"
run = pytest.fixture(calling)


# --- the README -----------------------------------------------------------------------------------


def section() -> str:
    text = (ROOT / "README.md").read_text("utf-8")
    return text.split("## Figures, search, references\n")[1].split("\n## ")[0]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", section(), re.DOTALL)


def transcript() -> Iterator[tuple[str, str]]:
    """Each command of the section and what is printed below it."""
    for block in blocks("console"):
        for part in block.split("$ ")[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


def test_the_readme_shows_what_is_printed(run: Call, tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "card.toml").write_text(blocks("toml")[0], "utf-8")
    shown = list(transcript())
    assert len(shown) > 5
    for command, printed in shown:
        program, *argv = shlex.split(command)
        code, out, err = run(*argv)
        assert (program, code) == ("foldstream", 0), err
        assert out.rstrip("\n") == printed.rstrip("\n"), command


def test_the_readme_shows_recorded_and_simulated_logs_and_costs() -> None:
    commands = [command for command, _ in transcript()]
    for part in ("query search tests/golden", "reference tests/golden", "simulate", "query cost"):
        assert any(part in command for command in commands), part


# --- the help pages -------------------------------------------------------------------------------


def examples(parser: argparse.ArgumentParser) -> Iterator[str]:
    for line in (parser.epilog or "").splitlines():
        if line.startswith("  foldstream "):
            yield line.strip()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from examples(below)


def all_examples() -> list[str]:
    return [line for name in ("query", "reference") for line in examples(_parser(name))]


def _parser(name: str) -> argparse.ArgumentParser:
    (group,) = [
        each for each in cli.parser(name)._actions if isinstance(each, argparse._SubParsersAction)
    ]
    found: argparse.ArgumentParser = group.choices[name]
    return found


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the examples name: a file, a folder, a card, and a session on the topics."""
    lines = simulate(20, events=60, shape="v4").lines
    lines[0] = json.dumps(json.loads(lines[0]) | {"id": SESSION}).encode()
    text = b"\n".join(lines) + b"\n"
    (tmp_path / "session.v4.jsonl").write_bytes(text)
    (tmp_path / "sessions" / SESSION).mkdir(parents=True)
    (tmp_path / "sessions" / SESSION / "log.jsonl").write_bytes(text)
    (tmp_path / "card.toml").write_text(blocks("toml")[0], "utf-8")
    on_topics(monkeypatch, SESSION, lines)


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize("example", all_examples())
def test_an_example_of_a_help_page_runs(run: Call, example: str) -> None:
    command, _, behind = example.partition(" | ")
    code, out, err = run(*shlex.split(command)[1:])
    assert code == 0, err
    if "--json" in command:
        assert [json.loads(line) for line in out.splitlines()]
    if behind and shutil.which(shlex.split(behind)[0]):
        argv = shlex.split(behind)
        piped = subprocess.run(argv, input=out.encode(), capture_output=True, check=True)
        assert (bool(piped.stdout), piped.stderr) == (True, b"")


def test_every_question_has_an_example() -> None:
    asked = {" ".join(shlex.split(example)[1:3]) for example in all_examples()}
    names = ("search", "window", "trace", "contexts", "cuts", "sessions", "lineage", "cost")
    assert {f"query {name}" for name in names} <= asked
    assert any(example.startswith("foldstream reference") for example in all_examples())
