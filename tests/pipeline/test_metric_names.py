"""Names of metrics: as Prometheus wants them, and the same in runbook, dashboard and alerts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.pipeline.scrape import Prometheus

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture
def prometheus() -> Prometheus:
    return Prometheus()


def test_names_and_helps_follow_the_conventions(prometheus: Prometheus) -> None:
    prometheus.observer.ready(lambda: True)
    for family in prometheus.observer.registry.collect():
        if family.name.startswith("process_"):
            continue
        assert family.name.startswith("foldstream_")
        assert family.documentation.endswith(".")
        assert family.type in {"counter", "gauge", "histogram", "info"}
        if family.type == "histogram":
            assert family.name.endswith("_seconds")
        for sample in family.samples:
            assert not set(sample.labels) & {"session", "instance", "job"}


def known(prometheus: Prometheus) -> set[str]:
    """Every sample name there can be."""
    prometheus.observer.ready(lambda: True)
    names = set()
    for family in prometheus.observer.registry.collect():
        match family.type:
            case "counter":
                names.add(f"{family.name}_total")
            case "histogram":
                names |= {f"{family.name}_{end}" for end in ("bucket", "sum", "count")}
            case "info":
                names.add(f"{family.name}_info")
            case _:
                names.add(family.name)
    return names


def mentioned(text: str) -> set[str]:
    return set(re.findall(r"\b(?:foldstream|process)_[a-z_]+\b", text))


@pytest.mark.parametrize("file", ["alerts.yml", "grafana-dashboard.json"])
def test_dashboard_and_alerts_ask_for_what_there_is(prometheus: Prometheus, file: str) -> None:
    text = (DEPLOY / file).read_text()
    asked = mentioned(text)
    assert len(asked) > 8
    assert asked <= known(prometheus)


def test_every_metric_is_in_the_runbook_and_no_other(prometheus: Prometheus) -> None:
    page = (DEPLOY / "observability.md").read_text()
    ours = {name for name in known(prometheus) if name.startswith("foldstream_")}
    histograms = {name.rsplit("_", 1)[0] for name in ours if name.endswith("_bucket")}
    families = {n for n in ours if n.rsplit("_", 1)[0] not in histograms} | histograms
    table = set(re.findall(r"^\| `(foldstream_[a-z_]+)`", page, re.MULTILINE))
    assert table == families


def test_every_alert_is_explained(prometheus: Prometheus) -> None:
    alerts = re.findall(r"^ *- alert: (\w+)$", (DEPLOY / "alerts.yml").read_text(), re.MULTILINE)
    page = (DEPLOY / "observability.md").read_text()
    assert len(alerts) >= 8
    explained = re.findall(r"^\| `(Foldstream\w+)`", page, re.MULTILINE)
    assert sorted(alerts) == sorted(explained)


def test_the_dashboard_is_whole() -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels:
        assert panel["targets"], panel["title"]
        assert panel["description"]
    areas = [
        {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        for at in (panel["gridPos"] for panel in dashboard["panels"])
    ]
    assert sum(map(len, areas)) == len(set[tuple[int, int]]().union(*areas)), "panels overlap"
