"""A job's list of approvers is read from its source text, belongs to the release, and equals the list that running the
job yields.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.authoring import definition
from streamkeeper.authoring.definition import load_job
from streamkeeper.authoring.job_declarations import read_approvers
from streamkeeper.errors import InvalidInput, JobUnusable
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifests.release import ReleaseContent
from streamkeeper.registry.bundles import build_bundle

HEAD = "import streamkeeper\nfrom functools import partial\nfrom streamkeeper import streaming_job\n"
LISTED = '@streaming_job(name="sales", approvers=["ada", "cli:bob", "eve=3"])\ndef sales(a, b): ...\n'
DETOURS = {
    "another name of the decorator": 'declare = streaming_job\n@declare(name="sales", approvers=["ada"])\n',
    "a mapping": 'MORE = {"approvers": ["ada"]}\n@streaming_job(name="sales", **MORE)\n',
    "a partial": 'declare = partial(streaming_job, approvers=["ada"])\n@declare(name="sales")\n',
    "a condition": '@(streaming_job(name="sales") if 0 else partial(streaming_job, approvers=["ada"])(name="sales"))\n',
}


def write(root: Path, text: str) -> Path:
    (root / "sales.py").write_text(HEAD + text)
    return root


def test_a_list_is_read_without_running_the_job(tmp_path: Path) -> None:
    """The list of approvers is read from the text alone, even if the file would exit the process when run; the list of
    a different job in the file is ignored.
    """
    write(tmp_path, f"{LISTED.replace('sales', 'other').replace('ada', 'eve')}{LISTED}raise SystemExit\n")
    assert build_bundle(tmp_path, "sales").approvers == ("ada", "cli:bob", "eve=3")
    assert read_approvers("x = 1\n", "sales", where="sales.py") == ()


def test_running_the_job_gives_the_same_list(tmp_path: Path) -> None:
    """Loading the job and bundling its text yield the same list of approvers, without blanks around names; a job
    without a list has none either way.
    """
    write(tmp_path, LISTED.replace('"ada"', '" ada "'))
    assert load_job(tmp_path, "sales.py", "sales").approvers == build_bundle(tmp_path, "sales").approvers
    write(tmp_path, '@streaming_job(name="sales", approvers=None)\ndef sales(a, b): ...\n')
    assert load_job(tmp_path, "sales.py", "sales").approvers == build_bundle(tmp_path, "sales").approvers == ()


@pytest.mark.parametrize("given", ["PEOPLE", "[NAME]", "['ada'] + ['bob']", "list('ab')", "{[]: 1}"])
def test_a_list_of_approvers_that_is_not_a_literal_is_refused(tmp_path: Path, given: str) -> None:
    """A list of approvers that is not a literal, so that only running the job could compute it, is refused with file
    and line.
    """
    write(tmp_path, f"@streaming_job(name='sales', approvers={given})\ndef sales(a, b): ...\n")
    with pytest.raises(JobUnusable, match=r"^sales.py:4: the approvers of job sales are not a literal in its file"):
        build_bundle(tmp_path, "sales")


@pytest.mark.parametrize("given", ["[]", "'ada'", "['*']", "[7]", "{'ada': 1}"])
def test_an_empty_or_malformed_approver_list_is_refused_by_bundling_and_loading(tmp_path: Path, given: str) -> None:
    """An empty or malformed list of approvers is refused both when the job is bundled and when it is loaded, instead of
    counting as no list.
    """
    write(tmp_path, f"@streaming_job(name='sales', approvers={given})\ndef sales(a, b): ...\n")
    with pytest.raises(InvalidInput, match="^sales.py:4: the list of approvers"):
        build_bundle(tmp_path, "sales")
    with pytest.raises((InvalidInput, JobUnusable), match="list of approvers of job sales"):
        load_job(tmp_path, "sales.py", "sales")


@pytest.mark.parametrize("detour", DETOURS)
def test_indirectly_passed_approvers_are_found_when_the_job_is_loaded(tmp_path: Path, detour: str) -> None:
    """A list of approvers that is passed indirectly, so that the text does not show it, is found when the job is
    loaded, and the job is refused.
    """
    write(tmp_path, f"{DETOURS[detour]}def sales(a, b): ...\n")
    if detour == "a condition":
        assert build_bundle(tmp_path, "sales").approvers == ()
    told = "the approvers of job sales at run time differ from the approvers that are written in the file"
    with pytest.raises(JobUnusable, match=told):
        load_job(tmp_path, "sales.py", "sales")


def test_without_the_load_check_indirectly_passed_approvers_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the comparison at load time, an indirectly passed list is missing from the release, and
    no approver would be required.
    """
    write(tmp_path, f"{DETOURS['a partial']}def sales(a, b): ...\n")
    monkeypatch.setattr(definition, "_check_approvers_are_written_out", lambda *_: None)
    assert load_job(tmp_path, "sales.py", "sales").approvers == ("ada",)
    assert build_bundle(tmp_path, "sales").approvers == ()


def test_two_declarations_that_disagree_are_refused(tmp_path: Path) -> None:
    """Two declarations of one job with different approvers are refused, because the text does not show which one runs;
    two identical lists count as one.
    """
    write(tmp_path, f"if 1:\n    N = 1\n{LISTED}{LISTED.replace('ada', 'mallory')}")
    with pytest.raises(JobUnusable, match="declares job sales more than once, with different approvers"):
        build_bundle(tmp_path, "sales")
    write(tmp_path, f"{LISTED}{LISTED}")
    assert build_bundle(tmp_path, "sales").approvers == ("ada", "cli:bob", "eve=3")


def test_a_release_stored_before_approvers_existed_is_read_and_unchanged() -> None:
    """A release that was stored before approvers existed is read with an empty list, and is unchanged when it is
    written and read.
    """
    old = (
        b'{"bundle":"b","bundle_bytes":1,"entry":"sales.py","params":{},"conf":{},"environment":{"python":"3.11",'
        b'"spark":"4.2.0","packages_sha256":"p","jars_sha256":"j","digest":"d"},"state_format":"f"}'
    )
    read = from_json(old, ReleaseContent, where="old")
    assert read.approvers == ()
    assert from_json(to_json(read), ReleaseContent, where="new") == read
