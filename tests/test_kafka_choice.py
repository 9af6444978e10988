"""A run says which Kafka its tests were on, and one that was asked for is not replaced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOOKS = "kafka, pytest_sessionfinish, pytest_terminal_summary, pytest_testnodedown"


def run(folder: Path, *options: str, **environment: str) -> tuple[int, str]:
    """One test that asks for `kafka`, in a run of its own: exit code and what it printed."""
    (folder / "conftest.py").write_text(f"from tests.conftest import {HOOKS}\n")
    (folder / "test_it.py").write_text("def test_it(kafka):\n    assert kafka\n")
    (folder / "pytest.ini").touch()
    ours = {"KAFKA_BOOTSTRAP", "FOLDSTREAM_TEST_KAFKA", "CI"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(folder / "pytest.ini"), str(folder), *options],
        cwd=ROOT,
        env=kept | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "workers"])
def test_a_broker_that_is_named_is_taken_and_said(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, said = run(tmp_path, *options, KAFKA_BOOTSTRAP="somewhere:9092")
    assert code == 0, said
    assert "Kafka of this run: somewhere:9092 (KAFKA_BOOTSTRAP)" in said


def test_a_container_that_is_asked_for_is_not_replaced(tmp_path: Path) -> None:
    nobody = f"unix://{tmp_path}/nobody.sock"
    code, said = run(tmp_path, FOLDSTREAM_TEST_KAFKA="container", DOCKER_HOST=nobody)
    assert code == 1, said
    assert "no real Kafka: no Docker engine answers (No such file or directory)" in said


def test_no_other_kind_is_known(tmp_path: Path) -> None:
    code, said = run(tmp_path, FOLDSTREAM_TEST_KAFKA="cloud")
    assert code == 1, said
    assert "FOLDSTREAM_TEST_KAFKA=cloud: container or local" in said
