"""Tests of the demo's edits: they fit the current job files and produce the releases that they describe."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from demo.kafka.jobs import WITH_LARGEST as WITH_LARGEST_OF_A_MINUTE
from demo.lakehouse import edits
from demo.releases import COUNTED_OTHERWISE, NO_REFUNDS, PARTITIONED, WITH_LARGEST, Edit, edit, edited
from harness.places import Places
from streamkeeper.errors import InvalidInput


@pytest.fixture
def places(tmp_path: Path) -> Places:
    places = Places(tmp_path)
    places.prepare()
    return places


def test_every_edit_applies_in_its_order(places: Places) -> None:
    """Applied in their order, the demo's edits each produce a valid and different Python file."""
    seen = set()
    for change in (PARTITIONED, WITH_LARGEST, COUNTED_OTHERWISE, NO_REFUNDS):
        assert edit(places, change).startswith(f"{change.job}.py: ")
        text = (places.jobs / f"{change.job}.py").read_text()
        ast.parse(text)
        seen.add(text)
    assert len(seen) == 4


def test_reverting_an_edit_restores_the_job_file(places: Places) -> None:
    """Reverting an edit restores the job's file byte for byte."""
    file = places.jobs / "sales_totals.py"
    before = file.read_text()
    edit(places, WITH_LARGEST)
    assert file.read_text() != before
    edit(places, WITH_LARGEST.reverse)
    assert file.read_text() == before


def test_the_edit_fits_the_job_that_reads_the_topic(places: Places) -> None:
    """The edit of the job that reads a topic applies to its current file and adds the column ``largest``."""
    edit(places, WITH_LARGEST_OF_A_MINUTE)
    assert 'alias("largest")' in (places.jobs / "event_counts.py").read_text()


def test_the_edits_of_the_lakehouse_fit_the_job_that_reads_the_topic(places: Places) -> None:
    """Applied in their order, the edits of the lakehouse demo each produce a different, valid file that writes
    a Delta table.
    """
    seen = set()
    for change in (edits.TO_DELTA, edits.WITH_LARGEST, edits.COUNTED_OTHERWISE, edits.COUNTED_TWICE):
        edit(places, change)
        text = (places.jobs / "event_counts.py").read_text()
        ast.parse(text)
        assert "sink=DeltaSink(" in text
        seen.add(text)
    assert len(seen) == 4


@pytest.mark.parametrize("text", ["a = 1\n", "b = 1\nb = 1\n"], ids=["not there", "there twice"])
def test_an_edit_that_does_not_fit_is_refused(text: str) -> None:
    """An edit whose text is missing or occurs twice is refused, so that the demo never deploys an unchanged file as a
    new release.
    """
    with pytest.raises(InvalidInput, match="went apart"):
        edited(text, Edit(job="j", description="", replaces=(("b = 1", "b = 2"),)))
