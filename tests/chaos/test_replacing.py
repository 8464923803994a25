"""How negative controls replace Streamkeeper's protections."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from chaos.replacing import replace_in
from harness.places import ROOT

ALL = "from chaos.unprotected import SWITCHES, switch_off; switch_off('+'.join(SWITCHES))"


class Door:
    """A class with one protection to replace."""

    def close(self, slowly: bool, *, key: str = "") -> str:
        """Return a description of the arguments."""
        return f"closed with {key or 'no key'}, {slowly}"


def test_every_protection_is_found_and_switched_off() -> None:
    """Every protection that a control switches off still exists with the same parameters, so that a rename is noticed
    here and not hours into the controls.
    """
    run = subprocess.run([sys.executable, "-c", ALL], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_calls_reach_the_replacement_of_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a replacement, calls reach the new function."""
    monkeypatch.setattr(Door, "close", Door.close)
    replace_in(Door, close=lambda self, slowly, *, key="": "left open")
    assert Door().close(True, key="k") == "left open"


@pytest.mark.parametrize("other", [lambda self: "", lambda self, slowly: "", lambda self, slowly, more, *, key: ""])
def test_a_function_with_other_parameters_is_refused(other: Callable[..., str]) -> None:
    """A replacement with different parameters is refused, because it would raise when the protection is called, which
    looks like damage.
    """
    with pytest.raises(TypeError, match=r"Door\.close is called otherwise"):
        replace_in(Door, close=other)
    assert Door().close(False) == "closed with no key, False"


def test_replacing_a_missing_attribute_is_refused() -> None:
    """Replacing an attribute that does not exist is refused, because it would switch nothing off."""
    with pytest.raises(LookupError, match="has no shut"):
        replace_in(Door, shut=lambda self: None)
