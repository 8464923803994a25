"""Names of people: what a list may hold, whom an entry names, and when two names may be one person."""

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
def test_a_list_of_nobody_or_of_no_names_is_refused(given: Any) -> None:
    """One that can never let anybody answer, or that looks like it lets everybody, is told where it is read."""
    with pytest.raises(InvalidInput, match="^list"):
        check_approvers("list", given)


@pytest.mark.parametrize("given", ["ada", {"ada": 1}, None, 7, [7], [["ada"]], ["cli:ada=3"]])
def test_what_is_no_list_of_names_is_refused(given: Any) -> None:
    """A single string would be a list of letters."""
    with pytest.raises(InvalidInput, match="^list"):
        check_approvers("list", given)


def test_entries_are_kept_once_and_without_blanks_around_them() -> None:
    """In their order; letters that can be written in two ways in the one of Unicode's NFC."""
    given = [" ada", "bob ", "ada", "jose\N{COMBINING ACUTE ACCENT}", "eve = 3"]
    assert check_approvers("list", given) == ("ada", "bob", "jos\N{LATIN SMALL LETTER E WITH ACUTE}", "eve=3")


@pytest.mark.parametrize("by", ["ada", "cli:ada"])
def test_an_entry_names_exactly_its_user(by: str) -> None:
    """As the answer is signed, and nobody who looks alike; negative control: the very name is taken."""
    assert named(by, by)
    door = by.removesuffix("ada")
    for other in ("Ada", "ADA", "ada ", " ada", "adam", "ad", "", CYRILLIC, WIDE, UNSEEN, "ada=3"):
        assert not named(by, f"{door}{other}"), other


def test_the_command_line_and_airflow_are_two_doors() -> None:
    """A user of Airflow is not the operating system's user of that name, even one who is called so."""
    assert not named("ada", "cli:ada")
    assert not named("cli:ada", "ada")
    assert not named("cli:ada", airflow_user("cli:ada"))
    assert not named("cli:ada", airflow_user(airflow_user("cli:ada")))


def test_a_user_who_is_called_like_nobody_is_told_apart() -> None:
    """``airflow`` is who asks where nobody is known; a user of that name can be listed all the same."""
    assert airflow_user("airflow") != "airflow"
    assert named("airflow", airflow_user("airflow"))
    assert not named("airflow", "airflow")
    assert airflow_user("ada") == "ada"


def test_an_id_is_held_against_an_answers_id() -> None:
    """Where users may change their names, who takes a listed one is not the one who is meant."""
    assert named("ada=3", "ada", "3")
    assert not named("ada=3", "ada", "4")
    assert not named("ada=3", "bob", "3")
    assert named("ada", "ada", "4")


@pytest.mark.parametrize(
    "spelt",
    ["ada", "Ada", " ADA ", "cli:ada", "CLI:Ada", "ada@corp.example", "cli:CORP\\ada", "airflow:ada", WIDE, UNSEEN],
)
def test_one_person_by_another_spelling_is_one_person(spelt: str) -> None:
    """Whoever asks by one door and answers by the other, or writes themselves otherwise, is not two people."""
    assert same_person("ada", spelt)
    assert same_person(spelt, "ada")
    assert same_person(spelt, spelt)


@pytest.mark.parametrize("other", ["bob", "adam", "ada2", "cli:root", "ada.lovelace"])
def test_other_names_are_other_people(other: str) -> None:
    """Negative control: two people can be told apart, also two of one name in two domains."""
    assert not same_person("ada", other)
    assert not same_person("ada@one.example", "ada@other.example")
