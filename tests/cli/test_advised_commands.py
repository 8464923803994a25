"""Commands that rules and alerts recommend can be run as they are written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from streamkeeper.cli.main import app
from streamkeeper.health.rules import RULES

ALERTS = Path("deploy/prometheus-alerts.yml")


def advised() -> list[str]:
    """Return every recommended ``state-dead`` command, with its placeholders filled in."""
    actions = [rule.action.format(job="sales", query="totals", series="", instance="op-candidate") for rule in RULES]
    alerts = ALERTS.read_text(encoding="utf-8").replace("{{ $labels.job }}", "sales")
    found = re.findall(r"streamkeeper state-dead [^;,()`]+", "\n".join([*actions, alerts]))
    return [each.strip() for each in found]


def parse(command: str) -> None:
    words = shlex.split(command)
    group = typer.main.get_command(app)
    with group.make_context("streamkeeper", words[1:]) as context:
        name, found, rest = group.resolve_command(context, words[1:])  # type: ignore[attr-defined]
        found.make_context(name, rest, parent=context)


def test_recommended_state_dead_commands_have_all_required_parameters() -> None:
    """The three ``state-dead`` commands that two rules and an alert recommend have all required parameters."""
    commands = advised()
    assert len(commands) == 3
    for command in commands:
        parse(command)


def test_a_state_dead_command_without_the_driver_instance_is_refused() -> None:
    """Negative control: a ``state-dead`` command without the driver's instance is refused."""
    with pytest.raises(Exception, match="Missing parameter: instance"):
        parse("streamkeeper state-dead sales")
