"""Tests of ``deploy/prometheus-alerts.yml``: its contents, its syntax, and when the alerts fire according to
``promtool``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamkeeper.health.rules import RULES
from streamkeeper.model.watch.health import Urgency
from tests.deploy.metric_names import metric_names, named_in
from tests.deploy.promtool import promtool

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy" / "prometheus-alerts.yml"
MINUTE_S = 60


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(FILE.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def anchors() -> set[str]:
    """Return the anchors of the runbook's headings as repository pages generate them."""
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / "operations" / "runbook.md").read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in headings}


def test_promtool_accepts_the_file_of_alerts() -> None:
    """``promtool`` accepts the file of alerts and finds every rule in it."""
    found = promtool("check", "rules", FILE)
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{len(alerts())} rules found" in found.stdout


def test_promtool_refuses_a_broken_file(tmp_path: Path) -> None:
    """Negative control: ``promtool`` refuses a file with a truncated expression."""
    broken = tmp_path / "alerts.yml"
    broken.write_text(FILE.read_text().replace(") == 1", " == 1", 1))
    assert promtool("check", "rules", broken).returncode != 0


def test_every_alert_has_a_severity_a_summary_and_a_runbook_link() -> None:
    """Every alert has a unique name, a severity, a wait of at least two minutes, a summary and a link to an existing
    heading of the runbook.
    """
    names = [each["alert"] for each in alerts()]
    assert len(names) == len(set(names))
    for each in alerts():
        assert each["labels"]["severity"] in ("page", "ticket"), each["alert"]
        assert int(each["for"].removesuffix("m")) >= 2, each["alert"]
        assert each["annotations"]["summary"]
        page, _, anchor = each["annotations"]["runbook_url"].partition("#")
        assert page == "docs/operations/runbook.md"
        assert anchor in anchors(), f"{each['alert']}: docs/operations/runbook.md has no heading for {anchor}"


def test_every_watch_rule_above_informational_has_an_alert() -> None:
    """Every rule of the watch except informational ones has an alert with the rule's severity and runbook heading."""
    told = {}
    for each in alerts():
        if found := re.search(r'rule="([a-z-]+)"', each["expr"]):
            told[found[1]] = each["labels"]["severity"], each["annotations"]["runbook_url"].partition("#")[2]
    wanted = {
        rule.id: (rule.severity.value, re.sub(r"[^a-z0-9 -]", "", rule.heading.lower()).replace(" ", "-"))
        for rule in RULES
        if rule.severity is not Urgency.INFO
    }
    assert told == wanted


def test_alerts_refer_only_to_exported_metrics() -> None:
    """Every alert refers only to exported metrics, because a renamed metric would silence its alert."""
    for each in alerts():
        assert named_in(each["expr"])
        assert named_in(each["expr"]) <= metric_names(), each["alert"]


def play(tmp_path: Path, series: dict[str, str], expected: dict[int, dict[str, dict[str, str]]]) -> None:
    """Evaluate the alerts with ``promtool`` over series of one value per minute, and compare all firing alerts with
    ``expected`` (minute -> alert -> labels).
    """
    checked = sorted({name for each in expected.values() for name in each} | {"StreamkeeperStalled"})
    names = {each["alert"]: each for each in alerts()}
    given = {
        "rule_files": [str(FILE)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {
                        "eval_time": f"{minute}m",
                        "alertname": name,
                        "exp_alerts": [fired(names[name], firing[name])] if name in firing else [],
                    }
                    for minute, firing in expected.items()
                    for name in checked
                ],
            }
        ],
    }
    file = tmp_path / "played.yml"
    file.write_text(yaml.safe_dump(given))
    found = promtool("test", "rules", file)
    assert found.returncode == 0, found.stdout + found.stderr


def fired(alert: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """Return the expected form of a firing alert: its labels and annotations, filled in for a query of a job."""
    who = f"{labels.get('job', '')}/{labels.get('query', '')}"
    filled = {
        key: text.replace("{{ $labels.job }}{{ with $labels.query }}/{{ . }}{{ end }}", who)
        .replace("{{ $labels.job }}", labels.get("job", ""))
        .replace("{{ $labels.query }}", labels.get("query", ""))
        for key, text in alert["annotations"].items()
    }
    return {"exp_labels": {**alert["labels"], **labels}, "exp_annotations": filled}


SYMPTOM = 'streamkeeper_symptom{rule="stalled",severity="page",job="sales",query="totals"}'
ALIVE = {"streamkeeper_watch_pass_timestamp_seconds": "0+60x30", "streamkeeper_store_up": "1x30"}


def test_an_alert_fires_after_two_passes_and_ends_with_its_symptom(tmp_path: Path) -> None:
    """A symptom raises an alert only after it has lasted two passes, and the alert ends when the symptom does."""
    labels = {"job": "sales", "query": "totals"}
    series = {SYMPTOM: "_x4 1x5 stale", **ALIVE}
    play(
        tmp_path,
        series,
        {
            3: {},
            5: {},
            8: {"StreamkeeperStalled": labels},
            12: {},
        },
    )


def test_an_alert_fires_for_a_stopped_watch_only(tmp_path: Path) -> None:
    """An alert fires if the watch has made no pass at all or has stopped making passes. Control: no alert fires for a
    running watch.
    """
    silent = {"StreamkeeperWatchSilent": {}}
    play(tmp_path, {"streamkeeper_store_up": "1x30"}, {1: {}, 4: silent})
    stopped = {"streamkeeper_watch_pass_timestamp_seconds": "0+60x3 180x20", "streamkeeper_store_up": "1x30"}
    play(tmp_path, stopped, {5: {}, 15: silent})
    play(tmp_path, ALIVE, {4: {}, 15: {}, 20: {}})
    with pytest.raises(AssertionError):
        play(tmp_path, ALIVE, {15: silent})


def test_an_unavailable_store_and_a_missing_endpoint_each_raise_an_alert(tmp_path: Path) -> None:
    """An unavailable store and a missing metrics endpoint each raise an alert, because without them no symptom is
    reported.
    """
    down = {**ALIVE, "streamkeeper_store_up": "1x3 0x20"}
    play(tmp_path, down, {3: {}, 8: {"StreamkeeperStoreDown": {}}})
    gone = {"streamkeeper_watch_pass_timestamp_seconds": "0+60x30"}
    play(tmp_path, gone, {3: {}, 8: {"StreamkeeperMetricsGone": {}}})


def test_the_wait_is_a_multiple_of_the_watchs_pass() -> None:
    """Every alert waits at least two passes of the watch, which runs every minute, so that a single pass cannot raise
    it.
    """
    assert all(int(each["for"].removesuffix("m")) * 60 >= 2 * MINUTE_S for each in alerts())
