"""Secret references: found, resolved and put in place."""

from __future__ import annotations

import pytest

from streamkeeper.errors import InvalidInput
from streamkeeper.model.secret_references import find_references, resolve, split_reference, substitute
from streamkeeper.system.secret_resolvers import built_in_resolvers


def test_references_are_found_in_params_and_conf() -> None:
    """Each once, in order; other values are left alone."""
    found = find_references(
        {"url": "secret://env/URL", "again": "secret://env/URL", "n": 3, "plain": "x", "password": "literal"},
        {"spark.a": "secret://airflow/my_conn/password"},
    )
    assert found == ["secret://airflow/my_conn/password", "secret://env/URL"]


@pytest.mark.parametrize(
    "value",
    ["secret://vault/a", "secret://env", "secret://env/", "secret://env/a b", "secret://env/A/b", "x secret://env/A"],
)
def test_a_reference_that_cannot_be_meant_is_refused_by_name(value: str) -> None:
    """A typing error must not be handed to the job as if it were a value."""
    with pytest.raises(InvalidInput, match="param url: "):
        find_references({"url": value}, {})
    with pytest.raises(InvalidInput, match=r"conf spark\.x: "):
        find_references({}, {"spark.x": value})


def test_a_reference_splits_into_scheme_and_path() -> None:
    """Resolvers are given what stands behind their scheme."""
    assert split_reference("secret://airflow/db/password") == ("airflow", "db/password")


def test_resolving_names_what_is_missing_never_a_value() -> None:
    """A missing variable, an empty one, one that is no secret of a job, a scheme without a resolver: one line each."""
    resolvers = built_in_resolvers(
        {"STREAMKEEPER_SECRET_URL": "hunter2-value", "STREAMKEEPER_SECRET_EMPTY": "", "FERNET_KEY": "hunter2-key"}
    )
    assert resolve(["secret://env/URL"], resolvers) == {"secret://env/URL": "hunter2-value"}
    for reference, named in [
        ("secret://env/GONE", "variable STREAMKEEPER_SECRET_GONE"),
        ("secret://env/EMPTY", "variable STREAMKEEPER_SECRET_EMPTY"),
        ("secret://env/FERNET_KEY", "variable STREAMKEEPER_SECRET_FERNET_KEY"),
        ("secret://airflow/c", "secret://airflow/c cannot be resolved here"),
    ]:
        with pytest.raises(InvalidInput, match=named) as caught:
            resolve(["secret://env/URL", reference], resolvers)
        assert "hunter2" not in str(caught.value)


def test_substitute_fills_references_only() -> None:
    """Types of other values stay; an unresolved reference is an error, not a value."""
    secrets = {"secret://env/URL": "v"}
    assert substitute({"u": "secret://env/URL", "n": 3, "f": 0.5, "b": True, "z": None}, secrets) == {
        "u": "v",
        "n": 3,
        "f": 0.5,
        "b": True,
        "z": None,
    }
    with pytest.raises(InvalidInput, match="u: secret://env/X"):
        substitute({"u": "secret://env/X"}, secrets)
