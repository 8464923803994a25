"""Tests the names of approvers: what a list may contain, whom an entry names, and when two names may be the same
person.
"""

from __future__ import annotations

from typing import Any

import pytest

from streamkeeper.errors import InvalidInput
from streamkeeper.model.settings.approvers import airflow_user, check_approvers, read_approver, same_person

CYRILLIC = "\N{CYRILLIC SMALL LETTER A}da"
WIDE = "\N{FULLWIDTH LATIN SMALL LETTER A}da"
UNSEEN = "a\N{ZERO WIDTH SPACE}da"


def named(entry: str, by: str, user_id: str = "") -> bool:
    (checked,) = check_approvers("list", [entry])
    return read_approver(checked).is_named(by, user_id)


@pytest.mark.parametrize(
    "given", [[], (), ["", "ada"], [" "], ["*"], ["ada\nbob"], [UNSEEN], ["ada="], ["=3"], ["a,b"]]
)
def test_an_empty_or_invalid_list_of_approvers_is_refused(given: Any) -> None:
    """A list that is empty or has invalid entries, such as ``*`` or an invisible character, is refused with the list's
    name.
    """
    with pytest.raises(InvalidInput, match="^list"):
        check_approvers("list", given)


@pytest.mark.parametrize("given", ["ada", {"ada": 1}, None, 7, [7], [["ada"]], ["cli:ada=3"]])
def test_a_value_that_is_not_a_list_of_names_is_refused(given: Any) -> None:
    """A value that is not a list of names is refused, including a single string, which would be a list of letters."""
    with pytest.raises(InvalidInput, match="^list"):
        check_approvers("list", given)


def test_entries_are_kept_once_and_without_blanks_around_them() -> None:
    """Entries are stripped, normalized to Unicode NFC and deduplicated, and keep their order."""
    given = [" ada", "bob ", "ada", "jose\N{COMBINING ACUTE ACCENT}", "eve = 3"]
    assert check_approvers("list", given) == ("ada", "bob", "jos\N{LATIN SMALL LETTER E WITH ACUTE}", "eve=3")


@pytest.mark.parametrize("by", ["ada", "cli:ada"])
def test_an_entry_names_exactly_its_user(by: str) -> None:
    """An entry names exactly the user with that name and no similar-looking one. Negative control: the exact name
    matches.
    """
    assert named(by, by)
    door = by.removesuffix("ada")
    for other in ("Ada", "ADA", "ada ", " ada", "adam", "ad", "", CYRILLIC, WIDE, UNSEEN, "ada=3"):
        assert not named(by, f"{door}{other}"), other


def test_command_line_and_airflow_users_of_one_name_are_different() -> None:
    """An Airflow user and an operating system user of the same name are different users, even if the Airflow user's
    name begins with ``cli:``.
    """
    assert not named("ada", "cli:ada")
    assert not named("cli:ada", "ada")
    assert not named("cli:ada", airflow_user("cli:ada"))
    assert not named("cli:ada", airflow_user(airflow_user("cli:ada")))


def test_a_user_named_airflow_is_distinct_from_an_unknown_requester() -> None:
    """A real Airflow user named ``airflow`` is distinguished from ``airflow`` as the name of an unknown requester, and
    can be listed as an approver.
    """
    assert airflow_user("airflow") != "airflow"
    assert named("airflow", airflow_user("airflow"))
    assert not named("airflow", "airflow")
    assert airflow_user("ada") == "ada"


def test_an_entry_with_an_id_matches_only_that_user_id() -> None:
    """An entry with a user id matches only that name with that id, so that a renamed user cannot use a listed name; an
    entry without an id matches any id.
    """
    assert named("ada=3", "ada", "3")
    assert not named("ada=3", "ada", "4")
    assert not named("ada=3", "bob", "3")
    assert named("ada", "ada", "4")


@pytest.mark.parametrize(
    "spelt",
    ["ada", "Ada", " ADA ", "cli:ada", "CLI:Ada", "ada@corp.example", "cli:CORP\\ada", "airflow:ada", WIDE, UNSEEN],
)
def test_spellings_of_one_name_count_as_one_person(spelt: str) -> None:
    """Names that differ only in spelling, domain or door count as the same person."""
    assert same_person("ada", spelt)
    assert same_person(spelt, "ada")
    assert same_person(spelt, spelt)


@pytest.mark.parametrize("other", ["bob", "adam", "ada2", "cli:root", "ada.lovelace"])
def test_different_names_count_as_different_people(other: str) -> None:
    """Negative control: different names, and equal names in two domains, count as different people."""
    assert not same_person("ada", other)
    assert not same_person("ada@one.example", "ada@other.example")
