"""Tests which code a result records as the code that was measured."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bench.report import write_report
from chaos.cases import CaseResult
from chaos.results import Results
from conformance.matrix.record import TRUTH, append_truth, read_truths
from harness.checkout import FOLDERS, read_code, read_commit, read_origin

CASE = CaseResult(case="seed:1", hits=[], outcomes=[], tries=1, replays=0, damage=[], wall_s=1.0)

Git = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one file in each of the measured folders, and one file in a folder that is not measured."""
    for folder in (*FOLDERS, "docs"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("1")
    return tmp_path


@pytest.fixture
def git(root: Path) -> Git:
    """A function that runs git in that folder, whose files are all committed."""

    def run(*words: str) -> str:
        named = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *words]
        return subprocess.run(named, cwd=root, check=True, capture_output=True, text=True).stdout.strip()

    run("init", "--quiet")
    run("add", ".")
    run("commit", "--quiet", "--message", "Begin")
    return run


def commit_all(git: Git, message: str) -> None:
    """Commit all changes."""
    git("add", "--all")
    git("commit", "--quiet", "--message", message)


def test_the_code_id_consists_of_the_git_tree_ids_of_its_folders(root: Path, git: Git) -> None:
    """A result identifies its code by the git tree ids of its folders, which anyone can look up for a commit."""
    trees = [git("rev-parse", f"HEAD:{folder}")[:12] for folder in ("plugins", "dags", "jobs")]
    assert read_code(root) == "plugins:{} dags:{} jobs:{}".format(*trees)
    assert read_origin(root) == {"commit": git("rev-parse", "--short", "HEAD"), "code": read_code(root)}


def test_a_documentation_commit_does_not_change_the_code_id(root: Path, git: Git) -> None:
    """A commit that only changes documents changes the recorded commit but not the code id, so an older result still
    counts as one of the present code.
    """
    before = read_origin(root)
    (root / "docs" / "file").write_text("2")
    assert read_code(root) == before["code"]
    commit_all(git, "Describe it")
    assert read_code(root) == before["code"]
    assert read_commit(root) != before["commit"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_change_in_a_measured_folder_changes_the_code_id(folder: str, root: Path, git: Git) -> None:
    """A change in any measured folder changes the code id, and restoring the content restores the earlier id."""
    before = read_code(root)
    (root / folder / "file").write_text("2")
    commit_all(git, "Change it")
    assert read_code(root) != before
    (root / folder / "file").write_text("1")
    commit_all(git, "Change it back")
    assert read_code(root) == before


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", ["file", "new"])
def test_uncommitted_changes_mark_the_code_id_as_dirty(folder: str, name: str, root: Path, git: Git) -> None:
    """A changed or new file that is not committed marks the code id as dirty, because no commit contains that code."""
    before = read_code(root)
    (root / folder / name).write_text("2")
    assert read_code(root) == f"{before} dirty"


def test_every_line_of_a_campaign_names_its_code(tmp_path: Path) -> None:
    """Every line of a campaign's results, be it a case, a trace or a control, records its commit and code, and the
    cases read back are unchanged.
    """
    results = Results(tmp_path / "lines.jsonl")
    results.add_case(CASE)
    results.add_trace("switch", ["a"])
    results.add({"control": "fence", "found": "damage"})
    lines = [json.loads(each) for each in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert [{name: each[name] for name in ("commit", "code")} for each in lines] == [read_origin()] * 3
    assert Results(tmp_path / "lines.jsonl").cases == {CASE.case: CASE}


def test_a_result_line_without_a_code_id_is_read(tmp_path: Path) -> None:
    """A result line without a code id, from a campaign that began before ids were recorded, is read like any other, so
    the campaign can continue.
    """
    file = tmp_path / "lines.jsonl"
    Results(file).add_case(CASE)
    old = {name: each for name, each in json.loads(file.read_text()).items() if name != "code"}
    file.write_text(json.dumps(old) + "\n")
    assert Results(file).cases == {CASE.case: CASE}


def test_a_report_names_its_code(tmp_path: Path) -> None:
    """A report records the code that was measured."""
    assert json.loads(write_report("any", {"figure": 1}, into=tmp_path).read_text())["code"] == read_code()


def test_a_recorded_truth_without_a_code_id_is_rewritten_unchanged(tmp_path: Path) -> None:
    """A truth that was recorded without a code id is rewritten unchanged, and a new truth keeps its code id."""
    old = TRUTH.read_bytes().splitlines()[0] + b"\n"
    for each in read_truths(TRUTH).values():
        append_truth(tmp_path / "old", each)
        break
    assert (tmp_path / "old").read_bytes() == old
    [truth] = read_truths(tmp_path / "old").values()
    append_truth(tmp_path / "new", msgspec.structs.replace(truth, code="plugins:1"))
    assert [each.code for each in read_truths(tmp_path / "new").values()] == ["plugins:1"]
