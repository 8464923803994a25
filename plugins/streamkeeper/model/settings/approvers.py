"""The people who may answer an operation's questions: the form of their names, and when two names are one person.

``ada`` is a user of Airflow, ``cli:ada`` a user of the operating system, ``ada=3`` a user of Airflow with the id 3. A
list of approvers matches names exactly. The check whether people answer their own request also matches similar names.
Either comparison can therefore only err by refusing an answer.
"""

from __future__ import annotations

import unicodedata

import msgspec

from streamkeeper.errors import InvalidInput

CLI = "cli:"
AIRFLOW = "airflow:"
NOBODY = "airflow"
"""The recorded requester or respondent if Airflow names no person: a schedule, another DAG, a missing answer."""
WATCH = "the watch"
_RESERVED = frozenset({NOBODY, WATCH})
_EXAMPLE = "write names of users: ada, cli:ada (of the command line) or ada=3 (with the user's id in Airflow)"


class Approver(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a list of approvers; ``id`` is the user's id in Airflow, empty if the entry has none."""

    name: str
    id: str = ""

    def is_named(self, by: str, user_id: str = "") -> bool:
        """Whether this entry names the user ``by``; ``user_id`` is the user's id in Airflow, if the answer has one."""
        return self.name == unicodedata.normalize("NFC", by) and (not self.id or not user_id or self.id == user_id)


def check_approvers(where: str, value: object) -> tuple[str, ...]:
    """Return the entries of a list, normalised; raises InvalidInput for an empty list and for an invalid name."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise InvalidInput(f"{where} is not a list of names", hint=_EXAMPLE)
    names = tuple(dict.fromkeys(_check(where, name) for name in value))
    if not names:
        raise InvalidInput(
            f"{where} is empty, so no answer could be accepted", hint=f"leave the list out, or {_EXAMPLE}"
        )
    return names


def read_approver(entry: str) -> Approver:
    """Parse a checked entry, such as ``ada=3``."""
    if entry.startswith(CLI):
        return Approver(name=entry)
    name, separator, number = entry.rpartition("=")
    return Approver(name=airflow_user(name), id=number) if separator else Approver(name=airflow_user(entry))


def airflow_user(name: str) -> str:
    """Return the name under which an Airflow user is recorded. No user from elsewhere is recorded under this name."""
    return f"{AIRFLOW}{name}" if name in _RESERVED or name.startswith((CLI, AIRFLOW)) else name


def same_person(one: str, other: str) -> bool:
    """Whether two names may be one person. Prefixes such as ``cli:``, case, spaces and a missing domain are ignored."""
    (name, domain), (other_name, other_domain) = _bare(one), _bare(other)
    return name == other_name and (not domain or not other_domain or domain == other_domain)


def _check(where: str, entry: str) -> str:
    found = unicodedata.normalize("NFC", entry.strip())
    name, separator, number = found.rpartition("=")
    whole = name.strip() and number.strip() if separator else found
    if not whole or "," in found or not found.isprintable() or not any(map(str.isalnum, name or found)):
        raise InvalidInput(f"{where}: {entry!r} is not a user's name", hint=_EXAMPLE)
    if separator and name.startswith(CLI):
        raise InvalidInput(
            f"{where}: {entry!r} gives an Airflow id to a command-line user, who has none", hint=_EXAMPLE
        )
    return f"{name.strip()}={number.strip()}" if separator else found


def _bare(name: str) -> tuple[str, str]:
    """Return the name without entry point, case, spaces and domain, and the domain: ``cli:CORP\\Ada`` gives ``ada``."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    plain = "".join(character for character in folded if character.isprintable() and not character.isspace())
    plain = plain.removeprefix(AIRFLOW).removeprefix(CLI).rpartition("\\")[2]
    bare, _, domain = plain.partition("@")
    return bare, domain
