"""What the drills look with: every kind's rules and causes exist, and a rule that is switched off is gone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.bed import ROOT
from bench.campaign.drills.kinds import KINDS
from bench.campaign.unprotected import RULE
from streamkeeper.health.rules import find_rule
from streamkeeper.model.recovery import Cause

ASKED = """
from bench.campaign.unprotected import switch_off
switch_off({off!r})
from streamkeeper.health import acts, rules
print([all(rule.id != "driver-dead" for rule in each.RULES) for each in (rules, acts)])
"""


@pytest.mark.parametrize("name", KINDS)
def test_what_a_drill_waits_for_can_be_said(name: str) -> None:
    """A rule or a cause that was renamed would fail its drill for ever, and nobody would know why."""
    kind = KINDS[name]
    assert all(find_rule(each).id == each for each in kind.rules)
    assert set(kind.causes) <= {each.value for each in Cause}


@pytest.mark.parametrize(("off", "gone"), [(f"{RULE}driver-dead", True), (f"{RULE}frozen", False), ("", False)])
def test_a_rule_that_is_switched_off_is_gone(off: str, gone: bool) -> None:
    """For the rules and for what the watch does by itself; another one, or none, leaves it."""
    asked = [sys.executable, "-c", ASKED.format(off=off)]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str([gone, gone])
