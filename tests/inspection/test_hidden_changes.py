"""Tests changes that are invisible in a function's own text, code that did not change, and changes that reach no
function.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import msgspec
import pytest

from streamkeeper.compatibility.code_changes import NO_PART, NO_RECORD, code_change
from streamkeeper.model.manifests.manifest import UNREADABLE, CodePart, Manifest
from tests.compatibility.manifests import STATEFUL, changed
from tests.inspection.digest_cases import FORMS, HARMLESS, HIDINGS, Hiding
from tests.inspection.digest_neighbours import CHANGE_THE_DIGEST, LEAVE_THE_DIGEST, NEIGHBOURS

ROOT = Path(__file__).resolve().parents[2]
Digests = Mapping[str, list[str]]
Run = Callable[..., Digests]


OF_CODE = ("digests", "rewritten", "texts", "texts without parts")
TABLES: dict[str, tuple[Mapping[str, Mapping[str, str]], tuple[str, ...]]] = {
    "hidings": ({name: each.files for name, each in HIDINGS.items()}, (*OF_CODE, "parts")),
    "changed hidings": ({name: each.changed() for name, each in HIDINGS.items()}, (*OF_CODE, "parts")),
    "harmless": ({name: each.files for name, each in HARMLESS.items()}, ("digests",)),
    "changed harmless": ({name: each.changed() for name, each in HARMLESS.items()}, ("digests",)),
    "forms": (FORMS, OF_CODE),
    "neighbours": ({name: each.files for name, each in NEIGHBOURS.items()}, OF_CODE),
    "dangerous": ({name: each.changed() for name, each in CHANGE_THE_DIGEST.items()}, OF_CODE),
    "neighbours, harmless": ({name: each.changed() for name, each in LEAVE_THE_DIGEST.items()}, ("digests",)),
}
"""Maps each table to its bundles and to the readings that one process makes of them."""


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function that reads all bundles of a table; a different seed means a separate process and folder."""

    @cache
    def read(table: str, seed: int, readings: tuple[str, ...]) -> Mapping[str, Digests]:
        place = tmp_path_factory.mktemp("bundles") / ("deeper" if seed > 1 else "")
        numbered = {f"{number:03}": name for number, name in enumerate(TABLES[table][0])}
        for number, name in numbered.items():
            _write(place / number, TABLES[table][0][name])
        found = _digests(place, seed, readings)
        return {each: {name: found[each][number] for number, name in numbered.items()} for each in readings}

    def run(table: str, reading: str = "digests", *, seed: int = 1) -> Digests:
        together = TABLES[table][1]
        return read(table, seed, together if reading in together else (reading,))[reading]

    return run


def _write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _digests(place: Path, seed: int, readings: tuple[str, ...]) -> Mapping[str, Digests]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.inspection.digest_all", str(place), ",".join(readings)]
    ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def _unseen(before: Digests, after: Digests) -> list[str]:
    """Return the bundles with an equal, readable digest before and after the change in some way of reading."""
    return [
        name
        for name in before
        if any(
            one == other and one and not one.startswith(UNREADABLE)
            for one, other in zip(before[name], after[name], strict=True)
        )
    ]


def _opaque(found: Digests) -> list[str]:
    return [name for name, each in found.items() if any(one.startswith(UNREADABLE) for one in each)]


def test_every_hidden_change_alters_the_digest_or_marks_it_incomplete(digests: Run) -> None:
    """Every hidden change yields a different digest, or a digest that is marked as incomplete."""
    assert len(HIDINGS) >= 60
    assert _unseen(digests("hidings"), digests("changed hidings")) == []


def test_unchanged_bundles_have_equal_digests_in_a_separate_process_and_folder(digests: Run) -> None:
    """Without a change the same bundles have the same digests in a separate process and folder, and at most five are
    unreadable.
    """
    assert digests("hidings") == digests("hidings", seed=2)
    assert len(_opaque(digests("hidings"))) <= 5


def test_without_reachable_bundle_code_hidden_changes_stay_undetected(digests: Run) -> None:
    """Negative control: without the bundle code that unknown code may reach, at least 20 hidden changes go undetected,
    such as a file opened in the function.
    """
    unseen = _unseen(digests("hidings", "without the bundle"), digests("changed hidings", "without the bundle"))
    assert {"open in the function", "import_module with a computed name", "eval of a constant"} <= set(unseen)
    assert len(unseen) >= 20


def test_code_that_did_not_change_has_one_digest_in_every_process_and_folder(digests: Run) -> None:
    """Unchanged code has the same digest in every process and folder, whatever the hash seed and the kinds of objects
    it holds.
    """
    assert len(FORMS) >= 40
    assert digests("forms") == digests("forms", seed=2)


def test_only_a_thread_pool_and_an_open_connection_are_unreadable(digests: Run) -> None:
    """Of all code forms, only a thread pool and an open connection are unreadable, because they have no content to
    compare.
    """
    assert _opaque(digests("forms")) == ["thread pool", "open connection"]


def test_a_change_in_unreached_code_keeps_the_digest(digests: Run) -> None:
    """A change in a function, module or file that the code does not reach leaves its digest unchanged."""
    before, after = digests("harmless"), digests("changed harmless")
    assert [name for name in HARMLESS if before[name] != after[name]] == []


def test_every_edit_in_the_case_tables_changes_its_bundle(digests: Run) -> None:
    """Every edit in the tables of cases actually changes its bundle."""
    edits = (*CHANGE_THE_DIGEST.values(), *LEAVE_THE_DIGEST.values())
    cases: list[Hiding] = [*HIDINGS.values(), *HARMLESS.values(), *(edit.hiding for edit in edits)]
    assert [each for each in cases if each.changed() == each.files] == []


def test_harmless_edits_keep_the_digest_and_similar_harmful_edits_change_it(digests: Run) -> None:
    """Harmless edits leave the digest unchanged, and the similar edits that change what the function does change it."""
    before, harmless, dangerous = digests("neighbours"), digests("neighbours, harmless"), digests("dangerous")
    assert [name for name in harmless if harmless[name] != before[LEAVE_THE_DIGEST[name].bundle]] == []
    assert _unseen({name: before[CHANGE_THE_DIGEST[name].bundle] for name in dangerous}, dangerous) == []
    assert _opaque(before) == []


@pytest.mark.parametrize(("before", "after"), [("hidings", "changed hidings"), ("neighbours", "dangerous")])
def test_the_normal_form_digest_detects_every_change_of_the_plain_digest(digests: Run, before: str, after: str) -> None:
    """The digest of the normal form, which ignores how code is written, still detects every change that the plain
    digest detects.
    """
    found = digests(before, "rewritten")
    if before == "neighbours":
        found = {name: found[each.bundle] for name, each in CHANGE_THE_DIGEST.items()}
    assert _unseen(found, digests(after, "rewritten")) == []
    assert sum(any(each) for each in found.values()) >= 20


def test_the_normal_form_digest_is_equal_in_every_process_and_folder(digests: Run) -> None:
    """The digest of the normal form is the same in every process and folder, whatever the hash seed."""
    assert digests("forms", "rewritten") == digests("forms", "rewritten", seed=2)


def test_every_kind_of_harmless_edit_has_a_similar_harmful_edit() -> None:
    """Every kind of harmless edit has a similar edit that must change the digest, so a constant digest could not pass
    these tests.
    """
    assert [name for name, each in NEIGHBOURS.items() if not each.dangerous] == []


def _manifest(found: list[str]) -> Manifest:
    digest, parts, reached = found
    return changed(
        STATEFUL,
        functions={"below/0 f": digest},
        parts=msgspec.json.decode(parts, type=dict[str, CodePart]),
        reached=msgspec.json.decode(reached, type=dict[str, tuple[str, ...]]),
    )


def test_findings_name_the_changed_code_in_all_but_two_cases(digests: Run) -> None:
    """A finding about a hidden code change names the function, value or file in all but two cases, and unchanged code
    has the same parts in a separate process.
    """
    before, after = digests("hidings", "parts"), digests("changed hidings", "parts")
    seen = [name for name in HIDINGS if before[name][0] != after[name][0]]
    named = {name: code_change("below/0 f", _manifest(before[name]), _manifest(after[name])) for name in seen}
    unnamed = [name for name, change in named.items() if change.evidence in (NO_PART, NO_RECORD)]
    assert set(unnamed) <= {
        "a class registered with an abstract one elsewhere",
        "what a hint's text stands for",
    }
    assert len(seen) >= 170
    assert before == digests("hidings", "parts", seed=2)


@pytest.mark.parametrize("table", ["hidings", "changed hidings", "forms", "neighbours", "dangerous"])
def test_recording_parts_changes_no_digest(digests: Run, table: str) -> None:
    """Recording code parts does not change digests or the names of a sink's function, which registered releases without
    parts are compared by.
    """
    assert digests(table, "texts") == digests(table, "texts without parts")
