"""The gateway's queries over golden logs: the answers that a fold of the file gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden.cases import GOLDEN, SAMPLE, Case, find
from tests.pipeline.gateway.asking import Client
from tests.pipeline.gateway.query_agreement import differences
from tests.pipeline.gateway.stage import Stage

GROUPS = sorted({case.group for case in find(GOLDEN)})
EVERY = 10  #: all of them take minutes


def lines(case: Case) -> list[bytes]:
    """The log under the case's own name: ids of golden headers are not unique."""
    if case.header is None:
        return case.body
    return [json.dumps({**case.header, "id": case.id}).encode(), *case.body]


def differing(cases: list[Case], folder: Path) -> list[str]:
    assert cases
    stage = Stage(folder)
    stage.feed((case.id, line) for case in cases for line in lines(case))
    stage.run()
    stage.read_on()
    client = Client(stage)
    some = [case for case in cases if lines(case)]
    return [found for case in some for found in differences(client, case.id, lines(case))]


def test_the_sample(tmp_path: Path) -> None:
    assert differing(list(find(SAMPLE)), tmp_path) == []


@pytest.mark.skipif(not GROUPS, reason="needs the golden data (FOLDSTREAM_GOLDEN)")
@pytest.mark.parametrize("group", GROUPS)
def test_every_group(group: str, tmp_path: Path) -> None:
    assert differing(list(find(GOLDEN, group))[::EVERY], tmp_path) == []
