"""The checks of the drills: all rules and causes that they expect exist, and a rule that is switched off really is."""

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
def test_every_rule_and_cause_that_a_drill_waits_for_exists(name: str) -> None:
    """Every rule and cause that a drill waits for exists; after a rename the drill would always fail without an
    explanation.
    """
    kind = KINDS[name]
    assert all(find_rule(each).id == each for each in kind.rules)
    assert set(kind.causes) <= {each.value for each in Problem}


@pytest.mark.parametrize(("off", "gone"), [(f"{RULE}driver-dead", True), (f"{RULE}frozen", False), ("", False)])
def test_a_disabled_rule_is_removed_from_health_checks_and_the_watch(off: str, gone: bool) -> None:
    """A rule that is switched off is removed both from the health rules and from what the watch acts on; other rules
    remain.
    """
    asked = [sys.executable, "-c", ASKED.format(off=off)]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str([gone, gone])


def test_the_drill_table_repeats_the_newest_result_of_each_drill() -> None:
    """Each row of the drills' table repeats the newest result of its drill: the rules and cause that were named, the
    repair, both times, and the commit.
    """
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


def test_faults_of_disabled_rules_were_missed_and_the_page_lists_them() -> None:
    """In every recorded control, where the rule for a fault was switched off, the watch did not name that fault; the
    page lists exactly these controls.
    """
    lines = [json.loads(each) for each in (ROOT / "bench/results/drills.jsonl").read_text().splitlines()]
    controls = {each["control"]: each["found"] for each in lines if "control" in each}
    text = (ROOT / "docs/internals/campaigns.md").read_text()
    told = re.search(r"^Controls were run for ten faults: (.+?)\.", text, re.MULTILINE)
    assert told is not None
    assert set(re.findall(r"`([a-z-]+)`", told[1])) == set(controls)
    assert all(controls.values())


def test_events_announced_as_lost_are_removed_from_the_expected_ones_by_offset() -> None:
    """Events that were announced as lost are left out of the expected ones by their offset within the partition; all
    others remain expected.
    """
    events = [Event(f"e{n}", f"c{n % 2}", "sale", n, "2026-03-01T00:00:00Z") for n in range(8)]
    assert [each.event_id for each in without(events, {0: (1, 3)})] == ["e0", "e1", "e3", "e5", "e6", "e7"]
    assert without(events, {}) == events
