"""Each message that names a remedy is found in the runbook, as printed: its pages cannot rot."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED = {"Fatal", "Poison", "Retriable", "StoreFull", "StoreBroken", "BrokerError", "NoKafkaHere"}
#: No user meets them: brokers in memory, for tests and demos.
WITHIN = ("memory.py", "memory_ends.py", "simulated.py")


def messages() -> Iterator[tuple[str, str]]:
    """Where, and what is printed, with … for whatever differs."""
    for path in sorted((ROOT / "pipeline").rglob("*.py")):
        if path.name in WITHIN or path.name.startswith("memory_"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and _name(node.func) in NAMED and len(node.args) > 1:
                text = _text(node.args[0])
                if text is not None:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


def _text(message: ast.expr) -> str | None:
    if isinstance(message, ast.Constant):
        return str(message.value)
    if not isinstance(message, ast.JoinedStr):
        return None  # made elsewhere, of messages that are here as well
    parts = [part.value if isinstance(part, ast.Constant) else "…" for part in message.values]
    text = "".join(map(str, parts))
    return text if any(letter.isalpha() for letter in text) else None


FOUND = list(messages())


def pages() -> str:
    found = [ROOT / "deploy" / "RUNBOOK.md", *sorted((ROOT / "deploy" / "runbook").glob("*.md"))]
    return " ".join(" ".join(page.read_text("utf-8").split()) for page in found)


@pytest.mark.parametrize(("where", "text"), FOUND, ids=[where for where, _ in FOUND])
def test_a_message_with_a_remedy_stands_in_the_runbook(where: str, text: str) -> None:
    assert " ".join(text.split()) in pages(), f"{where}: add it to a page of deploy/runbook"


def test_messages_are_found_in_the_code() -> None:
    assert len(FOUND) > 40
    assert any("is the next to fold" in text for _, text in FOUND)
