"""An installation's settings, as its environment gives them."""

from __future__ import annotations

from pathlib import Path

from streamkeeper.model.settings import read_settings


def test_where_the_drivers_jars_are_does_not_depend_on_who_asks(tmp_path: Path) -> None:
    """Drivers work in other directories than whoever starts them; without the variable it is left to them."""
    home = {"STREAMKEEPER_HOME": str(tmp_path)}
    assert read_settings(home).jars == ""
    assert read_settings({**home, "STREAMKEEPER_JARS": "jars:/opt/jars"}).jars == f"{Path.cwd()}/jars:/opt/jars"
