"""Redaction of a whole deployment: nothing on any output topic, and a proof that agrees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.config import ConfigError
from pipeline.gateway.security import LOCAL, Rules, Token, admitted, rules_for
from pipeline.health import Address
from pipeline.memory_ends import MemoryReader
from pipeline.redaction import read_redaction
from pipeline.simulate import fleet
from pipeline.verify import verify
from schemas.codec import decode_change
from tests.operators.build import numbered
from tests.pipeline.world import World
from tests.schemas.test_redaction import SECRET, with_secrets

OUTPUTS = ("surface", "transcript", "partials", "overview")
RULES = """
[[rule]]
pattern = 'sk-[a-z0-9]+'
replacement = "[key]"

[[rule]]
rows = ["tool"]
fields = ["error"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "redaction.toml"
    path.write_text(RULES)
    return path


@pytest.fixture
def world() -> World:
    world = World()
    world.feed(("s-1", json.dumps(each).encode()) for each in numbered(with_secrets()))
    for session in fleet(3, 4, events=60):
        world.feed((session.id, line) for line in session.lines)
    return world


def told(world: World) -> str:
    """All that is on the output topics, decoded."""
    values = [record.value for role in OUTPUTS for record in world.read(role)]
    return " ".join(str(decode_change(value)) for value in values if value)


def test_nothing_that_is_taken_stands_on_an_output_topic(world: World, file: Path) -> None:
    world.run(redact=read_redaction(file), batch=7)
    assert SECRET not in told(world)
    assert "sk-abc" not in told(world)
    assert "[key]" in told(world)
    assert world.read("partials") == []
    assert any(SECRET.encode() in (record.value or b"") for record in world.read("events"))


def test_without_rules_it_would(world: World) -> None:
    world.run()
    assert SECRET in told(world)


def test_a_proof_takes_what_the_workers_took(world: World, file: Path) -> None:
    world.run(redact=read_redaction(file), batch=7)
    reader = MemoryReader(world.broker)
    assert verify(reader, world.names, redact=read_redaction(file)).ok
    without = verify(reader, world.names)
    assert without.differing > 0
    assert "s-1" in {each.session for each in without.differences}


@pytest.mark.parametrize(
    ("rules", "word"),
    [
        ("", "no rule"),
        ("[[rule]]", "neither"),
        ("[[rule]]\npattern = '('", "rule 1: pattern"),
        ("[[rule]]\npattern = 'x*'", "nothing is"),
        ("[[rule]]\npattern = 'x'\nrows = ['tools']", "'tools'"),
        ("[[rule]]\nfields = ['argument']", "'argument'"),
        ("[[rule]]\nrows = ['user']\nfields = ['arguments']", "'arguments'"),
        ("[[rule]]\nrows = ['overview']\nfields = ['goal']", "'goal'"),
        ("[[rule]]\npatern = 'x'", "patern"),
        ("[rule]\npattern = 'x'", "rule"),
        ("pattern = 'x'", "pattern"),
    ],
)
def test_rules_that_could_take_nothing_start_no_worker(
    tmp_path: Path, rules: str, word: str
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(rules)
    with pytest.raises(ConfigError, match=word):
        read_redaction(path)
    with pytest.raises(ConfigError):
        read_redaction(tmp_path / "none.toml")


# --- the gateway's raw pages ----------------------------------------------------------------------


def raw(rules: Rules, token: str | None = None) -> bool:
    headers = [(b"host", b"127.0.0.1:8080")]
    headers += [(b"authorization", f"Bearer {token}".encode())] if token else []
    scope = {"type": "http", "path": "/v1/sessions", "headers": headers, "query_string": b"",
             "client": ("127.0.0.1", 9)}  # fmt: skip
    return admitted(scope, rules).raw


def test_with_rules_raw_events_are_for_those_who_are_told_so() -> None:
    tokens = (Token("a", "a" * 32), Token("b", "b" * 32, raw=True), Token("c", "c" * 32, raw=False))
    for redacted, seen in ((False, [True, True, False]), (True, [False, True, False])):
        rules = rules_for(Address("127.0.0.1", 8080), 8080, tokens, redacted=redacted)
        assert [raw(rules, each.token) for each in tokens] == seen
        alone = rules_for(Address("127.0.0.1", 8080), 8080, redacted=redacted)
        assert raw(alone) is not redacted
    assert LOCAL.raw
