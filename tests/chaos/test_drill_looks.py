"""What the drills look with: every kind's rules and causes exist, and a rule that is switched off is gone."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from chaos.drills.kinds import KINDS
from chaos.drills.on_topics import without
from chaos.unprotected import RULE
from harness.places import ROOT
from harness.topic_feed import Event
from streamkeeper.health.rules import find_rule
from streamkeeper.model.requests.diagnosis import Problem

ASKED = """
from chaos.unprotected import switch_off
switch_off({off!r})
from streamkeeper.health import acts, rules
print([all(rule.id != "driver-dead" for rule in each.RULES) for each in (rules, acts)])
"""


@pytest.mark.parametrize("name", KINDS)
def test_what_a_drill_waits_for_can_be_said(name: str) -> None:
    """A rule or a cause that was renamed would fail its drill for ever, and nobody would know why."""
    kind = KINDS[name]
    assert all(find_rule(each).id == each for each in kind.rules)
    assert set(kind.causes) <= {each.value for each in Problem}


@pytest.mark.parametrize(("off", "gone"), [(f"{RULE}driver-dead", True), (f"{RULE}frozen", False), ("", False)])
def test_a_rule_that_is_switched_off_is_gone(off: str, gone: bool) -> None:
    """For the rules and for what the watch does by itself; another one, or none, leaves it."""
    asked = [sys.executable, "-c", ASKED.format(off=off)]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str([gone, gone])


def test_the_table_of_the_drills_is_what_was_played() -> None:
    """Each row repeats the newest line of its drill: what was named and after how long, and what was mended."""
    lines = [json.loads(each) for each in (ROOT / "bench/results/drills.jsonl").read_text().splitlines()]
    played = {each["case"].partition(":")[0]: each for each in lines if "case" in each}
    text = (ROOT / "docs/internals/campaigns.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \|$", text, re.MULTILINE)
    told = {name: cells.split(" | ") for name, cells in rows if name in KINDS}
    assert set(told) == set(played)
    for name, line in played.items():
        figures = [f"{line[each]:g}" for each in ("named_s", "mended_s")]
        wanted = [", ".join(line["named"]), line["cause"], figures[0], line["mended"], figures[1]]
        assert told[name] == [*wanted, "no" if line["damage"] else "yes", line["commit"]]


def test_every_control_on_record_was_missed_and_is_told() -> None:
    """Without the rule that names a cause the watch did not name it; the page lists which were tried."""
    lines = [json.loads(each) for each in (ROOT / "bench/results/drills.jsonl").read_text().splitlines()]
    controls = {each["control"]: each["found"] for each in lines if "control" in each}
    text = (ROOT / "docs/internals/campaigns.md").read_text()
    told = re.search(r"^Controls were run for ten faults: (.+?)\.", text, re.MULTILINE)
    assert told is not None
    assert set(re.findall(r"`([a-z-]+)`", told[1])) == set(controls)
    assert all(controls.values())


def test_what_is_announced_as_lost_is_taken_off_by_its_offsets() -> None:
    """An event's offset is its number among those of its partition; the rest has to come out."""
    events = [Event(f"e{n}", f"c{n % 2}", "sale", n, "2026-03-01T00:00:00Z") for n in range(8)]
    assert [each.event_id for each in without(events, {0: (1, 3)})] == ["e0", "e1", "e3", "e5", "e6", "e7"]
    assert without(events, {}) == events
