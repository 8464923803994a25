"""The environment's hash: stable, cheap, and sensitive to what a driver would notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streamkeeper.errors import InvalidInput
from streamkeeper.registry.environments import installed_jars, read_environment

ROOT = Path(__file__).resolve().parents[2]


def test_two_processes_read_the_same_environment() -> None:
    """The hash depends on no process, and reading it loads neither pyspark nor airflow."""
    code = (
        "import sys; from streamkeeper.registry.environments import read_environment as r; "
        "print(r().digest, 'pyspark' in sys.modules, 'airflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [read_environment().digest, "False", "False"]


def test_an_added_jar_changes_the_environment(tmp_path: Path) -> None:
    """spark.jars counts by name and size; its order does not."""
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
    """It would otherwise show only when the session is built."""
    with pytest.raises(InvalidInput, match=r"gone\.jar"):
        read_environment({"spark.jars": f"{tmp_path}/gone.jar"})


def test_the_installations_jars_change_the_environment(tmp_path: Path) -> None:
    """They count like added ones, in any directory that is named; a directory that is not there holds none."""
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
    """The default lies in the environment that runs the drivers, where scripts/connectors puts Kafka's jars."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "connectors/kafka").mkdir(parents=True)
    (tmp_path / "connectors/kafka/a.jar").touch()
    assert installed_jars("") == (f"{tmp_path}/connectors/kafka/a.jar",)
    assert "home=.venv/connectors\n" in (ROOT / "scripts/connectors").read_text()
