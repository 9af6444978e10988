"""The page's client and its texts, by `node --test`: no browser is needed.

Node.js is the one that Playwright drives browsers with: it comes with the wheel, new enough."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from playwright._impl._driver import compute_driver_executable

HERE = Path(__file__).parent


@pytest.mark.parametrize("script", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name)
def test_script(script: Path) -> None:
    node, _ = compute_driver_executable()
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap", str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
