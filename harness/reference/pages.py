"""Maps each generated page or module to the function that renders it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.places import ROOT
from harness.reference.command_line import render_command_line
from harness.reference.decision_list import render_decision_list
from harness.reference.forms import render_forms
from harness.reference.health_rules import render_health_rules
from harness.reference.job_api import render_job_api
from harness.reference.metric_list import render_metrics
from harness.reference.settings import render_settings
from harness.reference.task_arguments import render_task_arguments

FOLDER = ROOT / "docs"
TASK_ARGUMENTS = "../plugins/streamkeeper/orchestration/task_arguments.py"

PAGES: Mapping[str, Callable[[], str]] = {
    "internals/decisions.md": render_decision_list,
    "reference/cli.md": render_command_line,
    "reference/forms.md": render_forms,
    "reference/health-rules.md": render_health_rules,
    "reference/job-api.md": render_job_api,
    "reference/metrics.md": render_metrics,
    "reference/settings.md": render_settings,
    TASK_ARGUMENTS: render_task_arguments,
}
"""The function that renders each file; the paths are relative to docs."""
