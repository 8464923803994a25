"""Tests how secret references are found, resolved and substituted."""

from __future__ import annotations

import pytest

from streamkeeper.errors import InvalidInput
from streamkeeper.model.secret_references import find_references, resolve, split_reference, substitute
from streamkeeper.system.secret_resolvers import built_in_resolvers


def test_references_are_found_in_params_and_conf() -> None:
    """Each reference in params and conf is found once, in sorted order, and other values are ignored."""
    found = find_references(
        {"url": "secret://env/URL", "again": "secret://env/URL", "n": 3, "plain": "x", "password": "literal"},
        {"spark.a": "secret://airflow/my_conn/password"},
    )
    assert found == ["secret://airflow/my_conn/password", "secret://env/URL"]


@pytest.mark.parametrize(
    "value",
    ["secret://vault/a", "secret://env", "secret://env/", "secret://env/a b", "secret://env/A/b", "x secret://env/A"],
)
def test_a_malformed_reference_is_refused_by_name(value: str) -> None:
    """A malformed reference is refused with the name of its param or conf, so that a typing error does not reach the
    job as a value.
    """
    with pytest.raises(InvalidInput, match="param url: "):
        find_references({"url": value}, {})
    with pytest.raises(InvalidInput, match=r"conf spark\.x: "):
        find_references({}, {"spark.x": value})


def test_a_reference_splits_into_scheme_and_path() -> None:
    """A reference is split into its scheme and the path that the resolver receives."""
    assert split_reference("secret://airflow/db/password") == ("airflow", "db/password")


def test_resolving_names_what_is_missing_never_a_value() -> None:
    """A missing or empty variable, a variable without the secrets prefix and a scheme without a resolver are refused by
    name, and the message never contains a value.
    """
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
    """Substitution replaces only references and keeps the types of other values; an unresolved reference is an
    error.
    """
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
