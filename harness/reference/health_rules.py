"""Generates the page about health rules from the rules themselves."""

from __future__ import annotations

from harness.reference.markdown import code, page, prose, table
from harness.reference.rule_meanings import MEANINGS
from streamkeeper.health.health_rule import Rule
from streamkeeper.health.rules import EXPLAINS, PERMANENT, RULES
from streamkeeper.model.markdown_text import anchor
from streamkeeper.model.watch.health import Urgency

_INTRODUCTION = """
The watch checks every job against these rules. `page`: somebody has to act now. `ticket`: somebody has to act on a
working day. `info`: shown, not reported. A job's file can set a threshold or switch a rule off:
`@streaming_job(name="order_totals", health={"lag-seconds": 1800, "restarts": None})`. The last column is the section of
the runbook that explains the problem.
"""
_CAUSES = """
When one problem causes others, only the cause is reported. This table lists what each cause covers, for the same query
or, where the cause is of the whole job, for all of its queries.
"""
_FOR_GOOD = """
A restart cannot repair these, so the watch does not try one: a person has to change something first.
"""


def render_health_rules() -> str:
    """Return the text of docs/reference/health-rules.md."""
    order = list(Urgency)
    rules = sorted(RULES, key=lambda rule: order.index(rule.severity))
    every = table(
        ("rule", "severity", "raised when", "default threshold", "action", "runbook"),
        (
            (
                code(rule.id),
                code(rule.severity.value),
                MEANINGS[rule.id],
                _threshold(rule),
                prose(rule.action.format(job="JOB", query="QUERY", series="JOB/QUERY", instance="INSTANCE")),
                f"[{rule.heading}](../operations/runbook.md#{anchor(rule.heading)})",
            )
            for rule in rules
        ),
    )
    causes = table(
        ("cause", "covers"),
        ((code(cause), ", ".join(code(each) for each in sorted(EXPLAINS[cause]))) for cause in sorted(EXPLAINS)),
    )
    lasting = ", ".join(code(each) for each in sorted(PERMANENT))
    return page(
        "Health rules",
        _INTRODUCTION,
        every,
        f"## Causes and consequences\n\n{_CAUSES.strip()}\n\n{causes}",
        f"## Rules without a restart\n\n{_FOR_GOOD.strip()}\n\n{lasting}",
    )


def _threshold(rule: Rule) -> str:
    if rule.default is None:
        return rule.unit
    return f"{rule.default:,g} {rule.unit}".strip()
