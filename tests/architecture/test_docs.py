"""Everything that the documents mention exists: tests, links, pages, make targets, commands and DAGs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from streamkeeper.cli.main import app
from streamkeeper.health.rules import RULES
from streamkeeper.lifecycle.headings import HEADING_OF, HEADINGS
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.diagnosis import Problem
from tests.guarantees import functions_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])


def names(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", DOCS, ids=names)
def test_named_tests_exist(path: Path) -> None:
    """Every test that a document cites exists in the file that it names."""
    for file, function in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", path.read_text()):
        assert (ROOT / file).exists(), file
        assert function in functions_of(file), f"{file}::{function}"


@pytest.mark.parametrize("path", DOCS, ids=names)
def test_relative_links_lead_to_existing_files(path: Path) -> None:
    """Relative links between documents lead to existing files."""
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the documentation site generate them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", each) for each in headings]
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in plain}


@pytest.mark.parametrize("path", DOCS, ids=names)
def test_links_to_headings_lead_somewhere(path: Path) -> None:
    """Links to headings lead to an existing heading, also on a different page."""
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", path.read_text()):
        page = path.parent / target if target else path
        assert anchor in anchors(page), f"{target}#{anchor}"


def test_every_page_is_in_the_contents() -> None:
    """The sidebar of the documentation site lists every page except the front page and the decisions, which are listed
    elsewhere.
    """
    text = (ROOT / "docs" / "conf.py").read_text()
    for path in (ROOT / "docs").rglob("*.md"):
        page = path.relative_to(ROOT / "docs").with_suffix("").as_posix()
        listed = f'"{page}"' in text or f'"{page}.md"' in text
        assert page == "README" or page.startswith("decisions/") or listed, page


def test_the_code_names_pages_and_headings_that_exist() -> None:
    """Pages and headings that the code names in a hint, such as ``docs/operations/runbook.md, "The store is lost"``,
    exist.
    """
    found = set()
    for path in (ROOT / "plugins").rglob("*.py"):
        found |= set(re.findall(r'(docs/[\w/-]+\.md)(?:(?:: |, ")([A-Z][^".\n]+))?', path.read_text()))
    assert found
    for page, heading in found:
        assert (ROOT / page).exists(), page
        assert not heading or f"# {heading}\n" in (ROOT / page).read_text(), f"{page}: {heading}"


@pytest.mark.parametrize("path", DOCS, ids=names)
def test_make_targets_exist(path: Path) -> None:
    """Every make target that a document mentions is in the Makefile."""
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", path.read_text())) <= known


@pytest.mark.parametrize("path", DOCS, ids=names)
def test_commands_exist(path: Path) -> None:
    """Every ``streamkeeper`` command in a document exists and has the options that the document uses."""
    for words in re.findall(r"(?:^|`|\$ |exec scheduler )streamkeeper ([a-z][^`\n]*)", path.read_text(), re.MULTILINE):
        command, given = get_command(app), words.split()
        while given and given[0] in getattr(command, "commands", {}):
            command = command.commands[given.pop(0)]
        assert not hasattr(command, "commands") or "|" in words, words
        options = {name for each in command.params for name in each.opts}
        assert {each for each in given if re.fullmatch("--[a-z-]+", each)} <= options, words


def test_the_headings_that_a_diagnosis_names_are_in_the_runbook() -> None:
    """Every heading of the runbook to which a diagnosis refers exists."""
    runbook = (ROOT / "docs" / "operations" / "runbook.md").read_text()
    assert set(re.findall(r"^## (.+)$", runbook, re.MULTILINE)) >= HEADINGS


SAME = {
    Problem.STORE_OUT_OF_REACH: ("store-out-of-reach",),
    Problem.NOT_DEPLOYED: (),
    Problem.OPERATION_OPEN: ("operation-open",),
    Problem.DRIVER_UNREACHABLE: ("driver-unknown",),
    Problem.DISK_FULL: ("disk-full",),
    Problem.CHECKPOINT_LOST: ("checkpoint-missing",),
    Problem.CHECKPOINT_DAMAGED: ("checkpoint-damaged",),
    Problem.SINK_AHEAD: ("sink-ahead",),
    Problem.OWNER_UNPROVEN: ("owner-unproven",),
    Problem.OUTPUT_LOST: ("output-lost",),
    Problem.INPUT_GONE: ("input-gone",),
    Problem.SOURCE_OFFSET_LOST: ("source-offset-lost",),
    Problem.SINK_DOWN: ("sink-down",),
    Problem.STOPPED: (),
    Problem.MACHINE_REBOOTED: ("machine-rebooted",),
    Problem.DRIVER_FROZEN: ("frozen", "heartbeat-lost"),
    Problem.OUT_OF_MEMORY: ("out-of-memory",),
    Problem.BATCH_FAILS: (),
    Problem.DRIVER_FAILED: ("driver-refused", "crash-loop", "restarts"),
    Problem.DRIVER_KILLED: ("driver-dead",),
    Problem.DRIVER_STARTING: (),
    Problem.JOURNAL_LOST: ("journal-lost",),
    Problem.JOURNAL_OUTDATED: ("journal-outdated",),
    Problem.NOTHING_WRONG: (),
}
"""The rules that find the same problem as a diagnosis; empty if no rule does."""


def test_rules_and_diagnoses_of_one_problem_refer_to_the_same_runbook_heading() -> None:
    """A health rule and a diagnosis of the same problem refer to the same heading of the runbook, and every diagnosis
    is listed in ``SAME``.
    """
    headings = {rule.id: rule.heading for rule in RULES}
    assert set(SAME) == set(Problem)
    for cause, rules in SAME.items():
        assert {headings[rule] for rule in rules} <= {HEADING_OF[cause]}, cause


def test_the_architecture_tells_every_step_of_a_deploy() -> None:
    """The architecture page lists the steps of a deploy by name and in order; steps that are described together share a
    row.
    """
    text = (ROOT / "docs" / "internals" / "architecture.md").read_text()
    _, _, table = text.partition("| step | action | on failure |\n|---|---|---|\n")
    rows = table.partition("\n\n")[0].splitlines()
    told = [name for row in rows for name in row.split("|")[1].strip().split(", ")]
    assert told == [step.label for step in Step]


def test_the_first_two_commands_of_the_readme() -> None:
    """The first commands in the README are ``make demo`` and ``make test``."""
    first = re.search(r"```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert first
    assert first[1].split("\n")[:2] == ["make demo", "make test"]


def test_the_readme_is_short() -> None:
    """The README has at most 700 words; tasks and reference are in ``docs/``."""
    assert len((ROOT / "README.md").read_text().split()) <= 700


def test_decisions_are_numbered_without_gaps() -> None:
    """The decision records are numbered without gaps, in the file name and in the heading."""
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    for number, path in enumerate(files, start=1):
        assert path.name.startswith(f"{number:04d}-")
        assert path.read_text().startswith(f"# {number}. ")


@pytest.mark.parametrize(
    "path",
    [ROOT / "docs" / name for name in ("operations/runbook.md", "guides/deploy.md", "guides/recover.md")],
    ids=names,
)
def test_documents_call_dags_by_their_display_names(path: Path) -> None:
    """The documents call each DAG by the display name that Airflow shows."""
    shown = {
        name
        for file in (ROOT / "dags").glob("*.py")
        for name in re.findall(r'dag_display_name="([^"]+)"', file.read_text())
    }
    told = set(re.findall(r"(?<!\*)\*([A-Z][a-z ]* streaming jobs?(?: [a-z]+)?)\*(?!\*)", path.read_text()))
    assert told
    assert told <= shown
