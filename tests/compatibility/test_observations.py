"""Tests of findings about what sources guarantee for their input."""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.effects import effect_of
from streamkeeper.compatibility.observations import sources_without_promise
from streamkeeper.compatibility.shared_input import input_cleaned_under_others
from streamkeeper.model.manifests.finding import Severity
from streamkeeper.model.manifests.manifest import Manifest
from tests.compatibility.manifests import STATELESS, with_source


@pytest.mark.parametrize(
    ("before", "now", "rule"),
    [
        ("off", "delete", "source-begins-to-delete-its-input"),
        ("archive", "delete", "source-begins-to-delete-its-input"),
        (None, "archive", "source-begins-to-delete-its-input"),
        ("delete", "DELETE", "source-deletes-its-input"),
        ("delete", "off", ""),
    ],
)
def test_a_source_that_begins_to_clean_its_input_is_reported(before, now, rule) -> None:
    """A source that begins to delete or archive its input is reported as such; one that already does in the deployed
    release has the finding about continued deletion.
    """
    deployed = None if before is None else with_source(STATELESS, options={"cleansource": before})
    candidate = with_source(STATELESS, options={"cleansource": now})
    found = list(sources_without_promise(candidate, {}, deployed))
    assert [each.rule for each in found] == ([rule] if rule else [])
    told = [effect_of(each.rule, each.severity) for each in found]
    assert all(("from the first batch on" in each) == rule.startswith("source-begins") for each in told)


@pytest.mark.parametrize(
    ("cleaner", "other", "before", "severity"),
    [
        ("delete", "/in", "", Severity.FATAL),
        ("archive", "/in/day", "", Severity.FATAL),
        ("delete", "/in", "delete", Severity.NOTE),
        ("delete", "/in2", "", None),
        ("off", "/in", "", None),
    ],
)
def test_cleaning_files_that_a_second_query_reads_is_refused(cleaner, other, before, severity) -> None:
    """A query that begins to clean files that another query of the job reads is refused; if the deployed job already
    does, it is only noted.
    """
    reads = with_source(STATELESS, kind="file", location=other, options={})

    def cleans(how: str) -> Manifest:
        return with_source(STATELESS, kind="file", location="/in", options={"cleansource": how})

    candidate = {"cleans": cleans(cleaner), "reads": reads}
    deployed = {"cleans": cleans(before), "reads": reads} if before else {}
    found = list(input_cleaned_under_others("cleans", candidate, deployed))
    assert [each.severity for each in found] == ([severity] if severity else [])
    assert list(input_cleaned_under_others("reads", candidate, deployed)) == []
