"""Tests of ``deploy/grafana-dashboard.json``: it can be loaded by Grafana and uses only exported metrics."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.metric_names import metric_names, named_in
from tests.deploy.promtool import promtool

FILE = Path(__file__).resolve().parents[2] / "deploy" / "grafana-dashboard.json"
COLUMNS = 24
KINDS = {"timeseries", "stat", "table"}


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    return json.loads(FILE.read_text())


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_the_dashboard_shows_every_exported_metric_and_no_others(dashboard: dict[str, Any]) -> None:
    """The dashboard uses only exported metrics, and shows every one of them."""
    shown = set().union(*map(named_in, expressions(dashboard)))
    asked = [each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    assert shown <= metric_names()
    assert set().union(*map(named_in, asked)) <= metric_names()
    assert metric_names() - shown == set()


def test_the_dashboard_has_every_field_that_grafana_needs(dashboard: dict[str, Any]) -> None:
    """The dashboard has a title, a schema version, a selectable data source, and panels of known kinds with a unique
    id, a title, a description, a unit and targets.
    """
    assert dashboard["title"]
    assert dashboard["schemaVersion"] >= 36
    assert isinstance(dashboard["uid"], str)
    variables = {each["name"] for each in dashboard["templating"]["list"]}
    assert {"datasource", "job", "query"} == variables
    panels = dashboard["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] in KINDS
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        refs = [each["refId"] for each in panel["targets"]]
        assert refs == sorted(set(refs))
        for each in (panel, *panel["targets"]):
            assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_no_panel_lies_upon_another(dashboard: dict[str, Any]) -> None:
    """No two panels of the dashboard overlap, and all are within the grid's 24 columns."""
    places = [each["gridPos"] for each in dashboard["panels"]]
    assert all(each["x"] >= 0 and each["x"] + each["w"] <= COLUMNS for each in places)
    for one, other in combinations(places, 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart or above, (one, other)


def test_promtool_parses_every_expression(dashboard: dict[str, Any], tmp_path: Path) -> None:
    """``promtool`` parses every expression of the dashboard with its variables filled in; negative control: it refuses
    a truncated one.
    """
    texts = [each.replace("$job", "sales").replace("$query", ".*") for each in expressions(dashboard)]

    def check(texts: list[str]) -> int:
        rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(texts)]
        file = tmp_path / "panels.yml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
        return promtool("check", "rules", file).returncode

    assert check(texts) == 0
    assert check([*texts, "rate(streamkeeper_input_rows_total"]) != 0
