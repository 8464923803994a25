"""What the drills look with: every kind's rules and causes exist, and a rule that is switched off is gone."""

from __future__ import annotations

import json
import re
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


def test_the_table_of_the_guarantees_is_what_was_played() -> None:
    """Each row repeats the newest line of its drill: what was named and after how long, and what was mended."""
    lines = [json.loads(each) for each in (ROOT / "bench/results/drills.jsonl").read_text().splitlines()]
    played = {each["case"].partition(":")[0]: each for each in lines}
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \|$", (ROOT / "docs/guarantees.md").read_text(), re.MULTILINE)
    told = {name: cells.split(" | ") for name, cells in rows if name in KINDS}
    assert set(told) == set(played)
    for name, line in played.items():
        figures = [f"{line[each]:g}" for each in ("named_s", "mended_s")]
        wanted = [", ".join(line["named"]), line["cause"], figures[0], line["mended"], figures[1]]
        assert told[name] == [*wanted, "no" if line["damage"] else "yes", line["commit"]]
