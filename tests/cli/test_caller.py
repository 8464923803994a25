"""Tests of the user that a command records as its caller: the operating system's user, not the one that the environment
claims.
"""

from __future__ import annotations

import getpass
import os
import pwd
import subprocess
import sys

import pytest

from streamkeeper.cli.caller import caller
from streamkeeper.system.system_user import user_name

CLAIMED = ("LOGNAME", "USER", "LNAME", "USERNAME")


def test_environment_variables_do_not_change_the_recorded_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting LOGNAME, USER, LNAME or USERNAME does not change the recorded caller. Negative control: ``getpass``
    returns the claimed name.
    """
    for each in CLAIMED:
        monkeypatch.setenv(each, "somebody_else")
    assert getpass.getuser() == "somebody_else"
    assert caller() == f"cli:{pwd.getpwuid(os.geteuid()).pw_name}"


def test_a_user_id_without_a_name_is_recorded_as_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user id without a name in the password database, as in a container, is recorded as ``#`` and the number;
    LOGNAME is ignored and nothing fails.
    """
    monkeypatch.setenv("LOGNAME", "root")
    monkeypatch.setattr(os, "geteuid", lambda: 2_000_000_123)
    assert user_name() == "#2000000123"


@pytest.mark.skipif(os.geteuid() != 0, reason="another user can be become by root only")
def test_the_caller_is_the_effective_user_after_seteuid() -> None:
    """The caller is the effective user: a process that has called ``seteuid`` records the user that it has become."""
    script = "import os; os.seteuid(65534); from streamkeeper.cli.caller import caller; print(caller())"
    script = f"from streamkeeper.cli import caller as _; {script}"
    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert told.stdout.strip() == f"cli:{pwd.getpwuid(65534).pw_name}"


def test_nothing_asks_getpass() -> None:
    """No module of the package imports ``getpass`` or calls ``getuser``, so that no command can find its caller in any
    other way.
    """
    from pathlib import Path

    import streamkeeper

    code = Path(streamkeeper.__file__).parent.rglob("*.py")
    assert [each.name for each in code if "import getpass" in (text := each.read_text()) or "getuser" in text] == []
