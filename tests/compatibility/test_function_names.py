"""Tests of the names of Python functions in expressions."""

from __future__ import annotations

from streamkeeper.compatibility.function_names import names_of_both, short_name
from streamkeeper.model.manifests.manifest import Manifest, StateColumn
from tests.compatibility.manifests import STATELESS, changed

INNER = "pythonudf(source 0.x, dataType=double, evalType=200, func=1)"
NESTED = f"pythonudf({INNER}, dataType=string, evalType=200, func=0)"


def computing(*names: str, meaning: str = NESTED, **fields: object) -> Manifest:
    """Return a query with one column that these functions compute."""
    column = StateColumn(meaning=meaning, type="string", name="c", functions=names)
    return changed(STATELESS, columns=(column,), functions=dict.fromkeys(names, "digest"), **fields)


def test_recorded_column_functions_name_the_numbered_calls_of_its_expression() -> None:
    """The functions recorded for a column name the numbered calls of its expression, inner calls first, also if one
    function is called at two places.
    """
    once = computing("below/0 to_euro", "below/1 bucket")
    twice = computing("below/0 to_euro", "below/1 to_euro", "below/2 bucket")
    assert names_of_both(once, twice) == ({1: "to_euro", 0: "bucket"}, {1: "to_euro", 0: "bucket"})


def test_no_name_is_guessed() -> None:
    """No name is returned for two functions without a column that assigns them, nor for a lambda."""
    unknown = changed(computing("below/0 to_euro", "below/1 bucket"), columns=())
    nameless = computing("above/0 <lambda>", meaning=NESTED.replace("func=0", "func=1"))
    assert names_of_both(unknown, nameless) == ({}, {})


def test_the_only_function_of_a_query_is_named_without_a_recorded_column() -> None:
    """The only function of a query is named without a recorded column."""
    assert names_of_both(changed(computing("below/0 device"), columns=()), STATELESS) == ({0: "device"}, {})


def test_a_callable_object_has_the_name_of_its_class() -> None:
    """A callable object has its class's name; if the manifest records several classes, the method's name is kept."""
    one = computing("above/0 __call__", reached={"above/0 __call__": ("masking.Masker.__call__", "masking.Masker")})
    both = changed(one, reached={"above/0 __call__": ("masking.Masker.__call__", "masking.Other.__call__")})
    assert (short_name("above/0 __call__", one), short_name("above/0 __call__", both)) == ("Masker", "__call__")
