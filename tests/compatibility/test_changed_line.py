"""Tests that a finding names the candidate's source line that contains the changed expression."""

from __future__ import annotations

import msgspec
import pytest

from streamkeeper.compatibility.assess import assess
from streamkeeper.compatibility.changed_line import line_of_change
from streamkeeper.compatibility.report import render_markdown, render_text
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import Manifest, StateColumn, without_context
from tests.compatibility.manifests import STATEFUL, changed, with_operator

OLD_AMOUNT, NEW_AMOUNT = "multiply(source 0.gift, static 0.fee)", "multiply(source 0.qty, static 0.fee)"
DEPLOYED = changed(
    with_operator(STATEFUL, values=(StateColumn(meaning=f"sum({OLD_AMOUNT})", type="long"),)),
    written={OLD_AMOUNT: "job.py:20", f"sum({OLD_AMOUNT})": "job.py:30", "upper(source 0.k)": "job.py:9"},
)
CANDIDATE = changed(
    with_operator(STATEFUL, values=(StateColumn(meaning=f"sum({NEW_AMOUNT})", type="long"),)),
    written={NEW_AMOUNT: "job.py:21", f"sum({NEW_AMOUNT})": "job.py:31", "upper(source 0.k)": "job.py:9"},
)


def finding(old: Manifest, new: Manifest) -> Finding:
    """Return the only finding about the change."""
    (found,) = assess({"q": old}, {"q": new}).queries["q"].findings
    return found


def test_the_smallest_expression_that_is_new_is_named() -> None:
    """A finding names the line of the smallest new expression: that of the product, not of the sum around it."""
    assert finding(DEPLOYED, CANDIDATE).line == "job.py:21"


def test_a_line_is_printed_beside_the_change() -> None:
    """The line is printed on its own row in the text report and beside the place in the Markdown table."""
    assessment = assess({"q": DEPLOYED}, {"q": CANDIDATE})
    assert "line:       job.py:21\n" in render_text(assessment)
    assert ", job.py:21 |" in render_markdown(assessment)


def test_the_line_of_an_already_deployed_expression_is_not_named() -> None:
    """An expression that the deployed job already contains elsewhere is not named; the finding names the line of the
    new expression that uses it.
    """
    used = with_operator(CANDIDATE, values=(StateColumn(meaning="sum(upper(source 0.k))", type="long"),))
    new = changed(used, written={**CANDIDATE.written, "sum(upper(source 0.k))": "job.py:40"})
    assert finding(DEPLOYED, new).line == "job.py:40"


@pytest.mark.parametrize(
    ("before", "after"), [({}, CANDIDATE.written), (DEPLOYED.written, {}), ({}, {})], ids=["old", "new", "both"]
)
def test_no_line_is_named_unless_both_manifests_record_lines(before: dict[str, str], after: dict[str, str]) -> None:
    """A finding names no line unless both manifests record lines, which manifests of older releases do not."""
    assert finding(changed(DEPLOYED, written=before), changed(CANDIDATE, written=after)).line == ""


def test_a_moved_line_is_no_change() -> None:
    """Expressions that only moved to a different line give no finding and leave the compared manifest unchanged."""
    moved = changed(DEPLOYED, written=dict.fromkeys(DEPLOYED.written, "job.py:77"))
    assert assess({"q": DEPLOYED}, {"q": moved}).queries["q"].findings == ()
    assert without_context(DEPLOYED) == without_context(moved)


def test_a_manifest_without_lines_is_read() -> None:
    """A stored manifest of an older release without lines is decoded with an empty table of lines."""
    stored = msgspec.to_builtins(DEPLOYED)
    del stored["written"]
    assert msgspec.convert(stored, Manifest).written == {}


def test_changed_code_names_its_function() -> None:
    """A finding about changed code names the line at which the function begins."""
    name = "below/0 cost"
    old = changed(DEPLOYED, functions={name: "a" * 64})
    new = changed(DEPLOYED, functions={name: "b" * 64}, written={name: "lib/prices.py:4"})
    assert finding(old, new).line == "lib/prices.py:4"


def test_a_change_names_at_most_two_lines() -> None:
    """A change with three new expressions names at most two lines."""
    parts = {f"lessthan({number}:long, source 0.x)": f"job.py:{number}" for number in (1, 2, 3)}
    assert line_of_change(DEPLOYED, changed(CANDIDATE, written=parts), [], list(parts)) == "job.py:1, job.py:2"
