"""Params are checked before anything starts, and every fault is named."""

from __future__ import annotations

import pytest

from streamkeeper.authoring.definition import Param, streaming_job, validate_params
from streamkeeper.errors import InvalidInput, JobUnusable

DECLARED = {"input": Param(str), "rows": Param(int, default=5), "ratio": Param(float, default=0.5), "loud": Param(bool)}


def test_defaults_are_filled_in() -> None:
    """Params that are not passed get their defaults, and a whole number is accepted for a float."""
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
def test_invalid_params_are_refused_with_their_name_and_type(given: dict, told: str) -> None:
    """A missing, unknown or wrongly typed param is refused with one line that names it and its type."""
    with pytest.raises(InvalidInput) as raised:
        validate_params(DECLARED, given)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_none_is_accepted_only_if_it_is_the_default() -> None:
    """A param accepts None if its declared default is None."""
    assert validate_params({"since": Param(str, default=None)}, {}) == {"since": None}
    assert validate_params({"since": Param(str, default=None)}, {"since": None}) == {"since": None}


@pytest.mark.parametrize("declared", [Param(list), Param(int, default="5"), "a string"])  # type: ignore[arg-type]
def test_wrong_declarations_are_refused(declared: object) -> None:
    """A declaration with an unsupported type, a default of a wrong type, or no ``Param`` at all is refused when the job
    is declared.
    """
    with pytest.raises(JobUnusable, match="job sales: "):
        streaming_job(name="sales", params={"p": declared})  # type: ignore[dict-item]
