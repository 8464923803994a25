"""Tests the environment's hash: stable, cheap, and sensitive to changes that a driver would notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streamkeeper.errors import InvalidInput
from streamkeeper.registry.environments import installed_jars, read_environment

ROOT = Path(__file__).resolve().parents[2]


def test_two_processes_read_the_same_environment() -> None:
    """The environment's hash is equal in two processes, and reading it imports neither pyspark nor airflow."""
    code = (
        "import sys; from streamkeeper.registry.environments import read_environment as r; "
        "print(r().digest, 'pyspark' in sys.modules, 'airflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [read_environment().digest, "False", "False"]


def test_an_added_jar_changes_the_environment(tmp_path: Path) -> None:
    """A jar in ``spark.jars`` changes the environment's hash by its name and size, while the order of the jars does
    not.
    """
    (tmp_path / "a.jar").write_bytes(b"1")
    (tmp_path / "b.jar").write_bytes(b"22")
    plain = read_environment()
    one = read_environment({"spark.jars": f"{tmp_path}/a.jar,file://{tmp_path}/b.jar"})
    turned = read_environment({"spark.jars": f"file://{tmp_path}/b.jar, {tmp_path}/a.jar"})
    assert plain.digest != one.digest == turned.digest
    assert plain.packages_sha256 == one.packages_sha256
    (tmp_path / "a.jar").write_bytes(b"111")
    assert read_environment({"spark.jars": f"{tmp_path}/a.jar,{tmp_path}/b.jar"}).digest != one.digest


def test_a_missing_jar_is_named(tmp_path: Path) -> None:
    """A missing jar is reported by name when the environment is read, before a session is built."""
    with pytest.raises(InvalidInput, match=r"gone\.jar"):
        read_environment({"spark.jars": f"{tmp_path}/gone.jar"})


def test_the_installations_jars_change_the_environment(tmp_path: Path) -> None:
    """Jars in the installation's directories change the hash like those in ``spark.jars``, and a missing directory
    contains none.
    """
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one/a.jar").write_bytes(b"1")
    (tmp_path / "two/b.jar").write_bytes(b"22")
    none = read_environment({}, f"{tmp_path}/nowhere")
    both = read_environment({}, f"{tmp_path}/one:{tmp_path}/two")
    assert none.digest != read_environment({}, f"{tmp_path}/one").digest != both.digest
    assert installed_jars(f"{tmp_path}/two:{tmp_path}/one") == (f"{tmp_path}/two/b.jar", f"{tmp_path}/one/a.jar")
    assert both.digest == read_environment({"spark.jars": f"{tmp_path}/two/b.jar"}, f"{tmp_path}/one").digest


def test_jars_come_from_make_connectors_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the jars come from the ``connectors`` folder of the environment that runs the drivers, where
    ``scripts/connectors`` stores them.
    """
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "connectors/kafka").mkdir(parents=True)
    (tmp_path / "connectors/kafka/a.jar").touch()
    assert installed_jars("") == (f"{tmp_path}/connectors/kafka/a.jar",)
    assert "home=.venv/connectors\n" in (ROOT / "scripts/connectors").read_text()
