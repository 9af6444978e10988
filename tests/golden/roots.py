"""The golden session roots, and the verdict that counts for a file in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(os.environ.get("FOLDSTREAM_GOLDEN") or Path(__file__).parents[3] / "shared/golden")
ROOTS = sorted(path.parent for path in (GOLDEN / "directories").rglob("expected.json"))

MARKS = [
    pytest.mark.golden,
    pytest.mark.skipif(not ROOTS, reason=f"no golden session directories below {GOLDEN}"),
]


def name_of(root: Path) -> str:
    return str(root.relative_to(GOLDEN / "directories"))


def native(expected: dict[str, Any], says: dict[str, Any], name: str) -> dict[str, Any]:
    """The verdict on the file we read: of the release that wrote its format, else of the newest."""
    by = says.get("readBy", {})
    verdict = by.get("0.2.1rc2" if "v99" in name else "0.1.2rc1", says)
    alone = says.get("generations", {}).get(name, {})
    return verdict if "error" in alone else {**verdict, **alone}
