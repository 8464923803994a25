"""Every guarantee has a test, every cited test exists, and the generated list of tests is up to date."""

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
    """Each id in the document names exactly one guarantee, and the document has more than 200 ids."""
    assert len(IDS) > 200
    assert sorted(set(IDS)) == sorted(IDS)


def test_every_guarantee_has_evidence_and_no_evidence_lacks_its_guarantee() -> None:
    """Every guarantee except an assumption has evidence, and all evidence belongs to a guarantee."""
    assert set(EVIDENCE) <= set(IDS)
    assert {each for each in IDS if not each.startswith(ASSUMPTION)} <= set(EVIDENCE)


@pytest.mark.parametrize("name", EVIDENCE)
def test_a_guarantee_names_tests_that_exist(name: str) -> None:
    """The evidence of a guarantee names at least one test, and each named test or file with tests exists."""
    assert EVIDENCE[name].tests
    for each in EVIDENCE[name].tests + EVIDENCE[name].controls:
        file, _, function = each.partition("::")
        assert file.startswith("tests/"), each
        assert file.endswith(".py"), each
        found = functions_of(file)
        assert function in found if function else any(name.startswith("test_") for name in found), each


def test_guarantees_not_covered_by_make_test_name_the_command_that_tests_them() -> None:
    """A guarantee whose tests ``make test`` does not run, such as termination on YARN and Kubernetes, names the command
    that runs them; negative control: tests with other markers need no command.
    """
    rows = read_rows(GUARANTEES.read_text())
    left_out = {name: commands for name in EVIDENCE if (commands := commands_of(EVIDENCE[name]))}
    assert {"yarn-2", "pods-3"} <= left_out.keys()
    assert {name: told for name, told in left_out.items() if any(f"`{each}`" not in rows[name] for each in told)} == {}
    assert command_of("tests/runners/test_local_process.py") == ""
    assert command_of("tests/checkpoints/test_unread_files.py") == "", "one of its cases runs everywhere"


def test_the_list_of_tests_is_up_to_date() -> None:
    """The list of tests for readers equals the output of ``python -m tests.guarantees``."""
    assert APPENDIX.read_text() == render(GUARANTEES.read_text(), EVIDENCE)


def test_the_text_of_the_guarantees_names_no_test() -> None:
    """The text of the guarantees contains no test ids; they are only in the generated list."""
    assert "tests/" not in GUARANTEES.read_text().replace("tests/guarantees.toml", "")
