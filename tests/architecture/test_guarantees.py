"""Every guarantee has a test, every test that is named exists, and the list for readers is up to date."""

from __future__ import annotations

import pytest

from tests.guarantees import (
    APPENDIX,
    ASSUMPTION,
    GUARANTEES,
    command_of,
    commands_of,
    functions_of,
    read_evidence,
    read_ids,
    read_rows,
    render,
)

IDS = read_ids(GUARANTEES.read_text())
EVIDENCE = read_evidence()


def test_an_id_is_used_once() -> None:
    """Each id names one guarantee; the document has ids at all."""
    assert len(IDS) > 200
    assert sorted(set(IDS)) == sorted(IDS)


def test_every_guarantee_has_evidence_and_no_evidence_lacks_its_guarantee() -> None:
    """Only assumptions may have none."""
    assert set(EVIDENCE) <= set(IDS)
    assert {each for each in IDS if not each.startswith(ASSUMPTION)} <= set(EVIDENCE)


@pytest.mark.parametrize("name", EVIDENCE)
def test_a_guarantee_names_tests_that_exist(name: str) -> None:
    """At least one test; every id leads to a file with that function, or to a file with tests."""
    assert EVIDENCE[name].tests
    for each in EVIDENCE[name].tests + EVIDENCE[name].controls:
        file, _, function = each.partition("::")
        assert file.startswith("tests/"), each
        assert file.endswith(".py"), each
        found = functions_of(file)
        assert function in found if function else any(name.startswith("test_") for name in found), each


def test_a_guarantee_that_make_test_does_not_test_names_the_command_that_does() -> None:
    """The proofs of termination on YARN and Kubernetes among them; negative control: other markers are no command."""
    rows = read_rows(GUARANTEES.read_text())
    left_out = {name: commands for name in EVIDENCE if (commands := commands_of(EVIDENCE[name]))}
    assert {"yarn-2", "pods-3"} <= left_out.keys()
    assert {name: told for name, told in left_out.items() if any(f"`{each}`" not in rows[name] for each in told)} == {}
    assert command_of("tests/runners/test_local_process.py") == ""
    assert command_of("tests/integration/test_lives.py") == "", "one of its cases runs everywhere"


def test_the_list_of_tests_is_up_to_date() -> None:
    """``python -m tests.guarantees`` writes it again."""
    assert APPENDIX.read_text() == render(GUARANTEES.read_text(), EVIDENCE)


def test_the_text_of_the_guarantees_names_no_test() -> None:
    """Test ids are in the generated list only."""
    assert "tests/" not in GUARANTEES.read_text().replace("tests/guarantees.toml", "")
