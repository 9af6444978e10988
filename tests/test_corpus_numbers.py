"""The corpus of public bug reports: each number that applies has tests of its name.

A fault is shown where it lives: in the fold, in the protocol, in the API, on the page. A test of
several carries several numbers (``test_corpus_15_26_…``).
"""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
NUMBERS = {
    *(1, 2, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 17, 19, 20, 21, 22, 23, 25, 26, 28, 29, 30, 31, 32),
    *(34, 35, 36, 37, 38, 40, 41, 42, 43, 45, 46, 47, 48, 49, 51),
}
_TEST = re.compile(r"^(?:async )?def test_corpus((?:_[0-9]+)+)_", re.MULTILINE)


def test_every_number_has_a_test_and_no_test_another_number() -> None:
    found = {
        int(number)
        for file in HERE.rglob("test_*.py")
        for told in _TEST.findall(file.read_text("utf-8"))
        for number in told.strip("_").split("_")
    }
    assert found == NUMBERS
