"""Params are checked before anything is started, and every fault is named at once."""

from __future__ import annotations

import pytest

from streamkeeper.authoring.definition import Param, streaming_job, validate_params
from streamkeeper.errors import InvalidInput, JobUnusable

DECLARED = {"input": Param(str), "rows": Param(int, default=5), "ratio": Param(float, default=0.5), "loud": Param(bool)}


def test_defaults_are_filled_in() -> None:
    """What is not given gets its default; a whole number may stand for a float."""
    assert validate_params(DECLARED, {"input": "/in", "loud": True, "ratio": 2}) == {
        "input": "/in",
        "rows": 5,
        "ratio": 2.0,
        "loud": True,
    }


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"loud": True}, "param input is missing (str)"),
        ({"input": "/in", "loud": True, "inptu": 1}, "unknown param inptu"),
        ({"input": 3, "loud": True}, "param input is 3, not a str"),
        ({"input": "/in", "loud": "yes"}, "param loud is 'yes', not a bool"),
        ({"input": "/in", "loud": True, "rows": True}, "param rows is True, not a int"),
        ({"input": "/in", "loud": True, "rows": "5"}, "param rows is '5', not a int"),
        ({"input": "/in", "loud": True, "rows": None}, "param rows is None, not a int"),
    ],
)
def test_wrong_params_are_named(given: dict, told: str) -> None:
    """One line names the param and what it should be."""
    with pytest.raises(InvalidInput) as raised:
        validate_params(DECLARED, given)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_none_is_taken_only_as_a_default() -> None:
    """A param may be None when its author says so."""
    assert validate_params({"since": Param(str, default=None)}, {}) == {"since": None}
    assert validate_params({"since": Param(str, default=None)}, {"since": None}) == {"since": None}


@pytest.mark.parametrize("declared", [Param(list), Param(int, default="5"), "a string"])  # type: ignore[arg-type]
def test_wrong_declarations_are_refused(declared: object) -> None:
    """A declaration that cannot be kept is the job's fault, told when it is imported."""
    with pytest.raises(JobUnusable, match="job sales: "):
        streaming_job(name="sales", params={"p": declared})  # type: ignore[dict-item]
