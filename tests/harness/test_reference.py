"""Tests that the generated pages of the documentation match the code and list every variable that the code reads."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from harness.reference.markdown import cell, prose
from harness.reference.pages import FOLDER, PAGES
from harness.reference.rule_meanings import MEANINGS
from streamkeeper.health.rules import RULES
from streamkeeper.model.settings.setting_variables import VARIABLES
from streamkeeper.model.settings.settings import shown_default
from streamkeeper.operations.backups.pruning import read_policy
from streamkeeper.snapshots.retention import Policy

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.airflow if each == "reference/forms.md" else ()) for each in PAGES]
)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    """Each generated page equals what the code renders now; changed help texts, settings, forms, metrics or rules need
    ``make reference``.
    """
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `make reference` and commit its pages"


def test_every_variable_that_the_code_reads_is_in_the_reference() -> None:
    """The settings page lists every ``STREAMKEEPER_`` variable that the code or a DAG file names."""
    page = (FOLDER / "reference/settings.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(STREAMKEEPER_[A-Z_]+)`", page))
    files = [*(ROOT / "plugins").rglob("*.py"), *(ROOT / "dags").glob("*.py"), *(ROOT / "plugins").rglob("*.java")]
    named = {
        name for file in files for name in re.findall(r"""["'](STREAMKEEPER_[A-Z_]*[A-Z])["']""", file.read_text())
    }
    assert named
    assert named <= listed
    assert {each.variable for each in VARIABLES} <= listed


def test_defaults_of_the_reference_are_those_of_the_code() -> None:
    """The reference shows the code's default retention policy and the default schedules of the DAG files."""
    told = {each.variable: shown_default(each) for each in VARIABLES}
    assert read_policy(told["STREAMKEEPER_KEEP"]) == Policy()
    schedules = {}
    for file in (ROOT / "dags").glob("*.py"):
        schedules |= dict(re.findall(r'read_schedule\("(\w+)", "([^"]+)"\)', file.read_text()))
    assert schedules
    assert schedules == {name: default for name, default in told.items() if name.endswith("_SCHEDULE")}


def test_settings_that_only_airflow_reads_are_marked() -> None:
    """A setting marked as read by Airflow only is named in orchestration or DAG files and in no other module."""
    elsewhere = [
        file.read_text()
        for file in (ROOT / "plugins").rglob("*.py")
        if not {"orchestration", "dags"} & set(file.parts) and file.stem != "setting_variables"
    ]
    marked = [each for each in VARIABLES if each.airflow_only]
    assert marked
    for each in marked:
        assert not any(f'"{each.variable}"' in text for text in elsewhere), each.variable


def test_every_health_rule_has_a_meaning_in_the_reference() -> None:
    """Every health rule has a meaning in the reference, and no meaning belongs to a removed rule."""
    assert set(MEANINGS) == {rule.id for rule in RULES}


def test_prose_escapes_markup_outside_of_code_only() -> None:
    """Angle brackets and bars are escaped in prose, where they would be HTML or close a table cell, but not in code."""
    assert cell(prose("a <b> | ``<c>``")) == r"a \<b> \| `<c>`"


def test_every_module_of_the_generator_has_a_docstring() -> None:
    """Every module of the reference generator has a docstring."""
    for file in (ROOT / "harness" / "reference").glob("*.py"):
        assert ast.get_docstring(ast.parse(file.read_text())), file
