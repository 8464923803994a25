"""Tests the settings that an installation reads from its environment."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.model.settings.setting_variables import VARIABLES
from streamkeeper.model.settings.settings import Settings, read_settings, shown_default


def test_relative_jar_directories_become_absolute(tmp_path: Path) -> None:
    """Relative entries of ``STREAMKEEPER_JARS`` become absolute, because drivers run in other directories; without the
    variable the setting is empty.
    """
    home = {"STREAMKEEPER_HOME": str(tmp_path)}
    assert read_settings(home).jars == ""
    assert read_settings({**home, "STREAMKEEPER_JARS": "jars:/opt/jars"}).jars == f"{Path.cwd()}/jars:/opt/jars"


def test_every_setting_is_a_row_of_the_table(tmp_path: Path) -> None:
    """Every settings field has exactly one variable with a parser, and an unset variable yields the field's default, so
    that the generated reference is right.
    """
    rows = [each for each in VARIABLES if each.read is not None]
    fields = {field.name: field for field in msgspec.structs.fields(Settings)}
    assert {each.field for each in rows} == set(fields) - {"runner_variables"}
    assert len({each.field for each in rows}) == len(rows)
    found = read_settings({"STREAMKEEPER_HOME": str(tmp_path)})
    for each in rows:
        if each.unset is None:
            assert getattr(found, each.field) == fields[each.field].default, each.field
    assert [shown_default(each) for each in VARIABLES if not shown_default(each)] == []


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("CHECKPOINT", "CHECKPOINTS"),
        ("CHECKPOINT_ROOT", "CHECKPOINTS"),
        ("STORES", "STORE"),
        ("STORE_URL", "STORE"),
        ("KEPE", "KEEP"),
        ("JOSB", "JOBS"),
        ("RETIRED", "RETIRED_DAYS"),
        ("SNAPSHOT_STORE", "SNAPSHOTS"),
        ("BACKUP_SHEDULE", "BACKUP_SCHEDULE"),
        ("DRIVER_METRIC", "DRIVER_METRICS"),
        ("APPROVER", "APPROVERS"),
        ("FOUREYES", "FOUR_EYES"),
    ],
)
def test_a_misspelt_variable_is_refused_by_name(tmp_path: Path, misspelt: str, meant: str) -> None:
    """A misspelt variable is refused with the likely name, because its default would otherwise be used silently."""
    with pytest.raises(
        InvalidInput, match=rf"STREAMKEEPER_{misspelt} is not a setting \(rename it to STREAMKEEPER_{meant}, or"
    ):
        read_settings({"STREAMKEEPER_HOME": str(tmp_path), f"STREAMKEEPER_{misspelt}": "/data"})


@pytest.mark.parametrize("home", ["home", "./home", "~/home", "../home"])
def test_a_relative_home_is_refused(home: str) -> None:
    """A relative home is refused, because it would name a different installation in every directory."""
    with pytest.raises(InvalidInput, match=r"is relative, and so depends on where a command is run \(write the whole"):
        read_settings({"STREAMKEEPER_HOME": home})


def test_other_variables_of_that_prefix_are_left_alone(tmp_path: Path) -> None:
    """Other variables with the prefix are accepted: those of the demo, of a driver's environment, of secrets and of
    Kubernetes services.
    """
    others = ("PORT", "CI", "DATA", "CRASH", "CRASH_ONCE", "INSTANCE", "GENERATION", "SECRETS", "DB_PASSWORD")
    others += ("STORE_SERVICE_HOST", "STORE_PORT", "STORE_PORT_9000_TCP_ADDR")
    given = {f"STREAMKEEPER_{name}": "x" for name in others}
    assert read_settings({"STREAMKEEPER_HOME": str(tmp_path), **given}).home == str(tmp_path)


@pytest.mark.parametrize("jars", ["file:/opt/jars", "s3://b/jars", "/opt/jars:hdfs://n/jars"])
def test_a_url_in_the_jars_setting_is_refused(tmp_path: Path, jars: str) -> None:
    """A URL in ``STREAMKEEPER_JARS`` is refused, because it would be split at its colon."""
    with pytest.raises(Unsupported, match="STREAMKEEPER_JARS"):
        read_settings({"STREAMKEEPER_HOME": str(tmp_path), "STREAMKEEPER_JARS": jars})


@pytest.mark.parametrize("name", ["a,b", "a:b", "a\nb", "a\x1b"])
def test_a_home_that_spark_would_take_apart_is_refused(tmp_path: Path, name: str) -> None:
    """A home with a comma, a colon or a control character is refused with that character; spaces, quotes, ``$`` and
    ``#`` are accepted.
    """
    with pytest.raises(InvalidInput, match=r"^STREAMKEEPER_HOME=.* contains .*: "):
        read_settings({"STREAMKEEPER_HOME": f"{tmp_path}/{name}"})
    home = f'{tmp_path}/a home\'s "own" $name #1'
    assert read_settings({"STREAMKEEPER_HOME": home}).home == home


def test_the_confs_setting_accepts_only_names_and_prefixes(tmp_path: Path) -> None:
    """``STREAMKEEPER_CONFS`` accepts conf names and prefixes that end in ``.*``, and refuses other values."""
    home = {"STREAMKEEPER_HOME": str(tmp_path)}
    assert read_settings(home).confs == ()
    given = {**home, "STREAMKEEPER_CONFS": "spark.jars, spark.hadoop.fs.s3a.*"}
    assert read_settings(given).confs == ("spark.jars", "spark.hadoop.fs.s3a.*")
    for wrong in ("driver.memory", "spark.*.dir", "*"):
        with pytest.raises(InvalidInput, match="is not a Spark conf"):
            read_settings({**home, "STREAMKEEPER_CONFS": wrong})


def test_the_approvers_setting_is_a_list_of_names(tmp_path: Path) -> None:
    """``STREAMKEEPER_APPROVERS`` is a list of names; unset or empty means no list, and a list without valid names is
    refused.
    """
    home = {"STREAMKEEPER_HOME": str(tmp_path)}
    assert read_settings(home).approvers == read_settings({**home, "STREAMKEEPER_APPROVERS": ""}).approvers == ()
    assert read_settings({**home, "STREAMKEEPER_APPROVERS": " ada, cli:bob,eve=3,"}).approvers == (
        "ada",
        "cli:bob",
        "eve=3",
    )
    for nobody in (" ", ",", " , ,", "*", "ada,*", "ada,\x00"):
        with pytest.raises(InvalidInput, match="^STREAMKEEPER_APPROVERS"):
            read_settings({**home, "STREAMKEEPER_APPROVERS": nobody})


def test_the_four_eyes_setting_accepts_only_yes_or_no(tmp_path: Path) -> None:
    """``STREAMKEEPER_FOUR_EYES`` accepts only yes, no or empty; other values are refused, because a value read as no
    would let the requester answer.
    """
    home = {"STREAMKEEPER_HOME": str(tmp_path)}
    assert not read_settings(home).four_eyes
    assert [
        read_settings({**home, "STREAMKEEPER_FOUR_EYES": each}).four_eyes for each in ("yes", " YES ", "no", "")
    ] == [
        True,
        True,
        False,
        False,
    ]
    for unclear in ("true", "1", "on", "y"):
        with pytest.raises(InvalidInput, match="STREAMKEEPER_FOUR_EYES"):
            read_settings({**home, "STREAMKEEPER_FOUR_EYES": unclear})


@pytest.mark.parametrize("checkpoints", ["s3a://bucket/cp", "hdfs://namenode:8020/cp"])
def test_a_master_must_be_a_standalone_cluster_or_a_connection(tmp_path: Path, checkpoints: str) -> None:
    """``STREAMKEEPER_MASTER`` accepts a standalone cluster with one or several hosts, or an Airflow connection; unset
    means that drivers run their own tasks.
    """
    far = {"STREAMKEEPER_HOME": str(tmp_path), "STREAMKEEPER_CHECKPOINTS": checkpoints}
    assert read_settings(far).master == ""
    for master in ("spark://one:7077", "spark://one:7077,two.example:7078", "airflow://spark_default"):
        assert read_settings({**far, "STREAMKEEPER_MASTER": master}).master == master


@pytest.mark.parametrize(
    "master",
    ["yarn", "k8s://https://10.0.0.1", "local[4]", "spark://one", "spark://u@one:1", "airflow://", "airflow://a/b"],
)
def test_any_other_master_is_refused(tmp_path: Path, master: str) -> None:
    """Any other master is refused with an example of a valid one."""
    far = {"STREAMKEEPER_HOME": str(tmp_path), "STREAMKEEPER_CHECKPOINTS": "s3a://bucket/cp"}
    with pytest.raises(InvalidInput, match="spark://host:7077") as refused:
        read_settings({**far, "STREAMKEEPER_MASTER": master})
    assert f"STREAMKEEPER_MASTER={master}" in str(refused.value)


@pytest.mark.parametrize("checkpoints", ["", "/mnt/shared/checkpoints"])
def test_executors_elsewhere_need_checkpoints_that_they_can_write(tmp_path: Path, checkpoints: str) -> None:
    """A cluster master is refused with checkpoints in a directory, because the path would be a different directory on
    each executor's machine.
    """
    here = {"STREAMKEEPER_HOME": str(tmp_path), "STREAMKEEPER_MASTER": "spark://one:7077"}
    with pytest.raises(Unsupported, match="a different directory on each executor's machine .*s3a://.*hdfs://"):
        read_settings({**here, "STREAMKEEPER_CHECKPOINTS": checkpoints})


ON_KUBERNETES = {"STREAMKEEPER_DRIVERS": "kubernetes", "STREAMKEEPER_STORE": "s3://one/store"}
POD = {"STREAMKEEPER_POD_TEMPLATE": "/etc/driver-pod.yaml"}
ON_YARN = {"STREAMKEEPER_DRIVERS": "yarn", "STREAMKEEPER_STORE": "s3://one/store"}
IN_HDFS = {"STREAMKEEPER_CHECKPOINTS": "hdfs://one:8020/cp"}


def test_drivers_are_this_machines_unless_a_cluster_is_named(tmp_path: Path) -> None:
    """Drivers run locally by default, on YARN with an optional queue, or on Kubernetes with a pod template."""
    home = {"STREAMKEEPER_HOME": str(tmp_path)}
    assert read_settings(home).drivers == "local"
    found = read_settings({**home, **ON_YARN, **IN_HDFS, "STREAMKEEPER_QUEUE": "root.streaming"})
    assert (found.drivers, found.runner_variables) == ("yarn", {"STREAMKEEPER_QUEUE": "root.streaming"})
    found = read_settings({**home, **ON_KUBERNETES, **IN_HDFS, **POD})
    assert (found.drivers, found.runner_variables) == ("kubernetes", POD)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"STREAMKEEPER_STORE": ""}, "a store in the home would be a different directory on each node"),
        ({"STREAMKEEPER_CHECKPOINTS": "/cp"}, "/cp would be a different directory on each node"),
        (
            {"STREAMKEEPER_MASTER": "spark://a:1", "STREAMKEEPER_EXECUTOR_ENVIRONMENT": "/e.tar.gz"},
            "drivers on nodes cannot use STREAMKEEPER_EXECUTOR_ENVIRONMENT",
        ),
    ],
)
def test_cluster_drivers_are_refused_with_local_store_or_checkpoints(
    tmp_path: Path, given: dict[str, str], told: str
) -> None:
    """Drivers on cluster nodes are refused with a local store, local checkpoints or an executor environment."""
    with pytest.raises(InvalidInput, match=f"STREAMKEEPER_DRIVERS=yarn: .*{told}"):
        read_settings({"STREAMKEEPER_HOME": str(tmp_path), **ON_YARN, **IN_HDFS, **given})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"STREAMKEEPER_DRIVERS": "k8s"},
            "STREAMKEEPER_DRIVERS=k8s is not a place .*yarn or kubernetes",
        ),
        ({**ON_KUBERNETES, **IN_HDFS}, "STREAMKEEPER_DRIVERS=kubernetes: STREAMKEEPER_POD_TEMPLATE is not set"),
        (
            {**ON_YARN, **IN_HDFS, **POD},
            "STREAMKEEPER_POD_TEMPLATE=/etc/driver-pod.yaml has an effect only with STREAMKEEPER_DRIVERS=kubernetes",
        ),
        ({**ON_KUBERNETES, **IN_HDFS, "STREAMKEEPER_POD_TEMPLATE": "s3://a/b"}, "STREAMKEEPER_POD_TEMPLATE s3://a/b"),
        (
            {"STREAMKEEPER_QUEUE": "default"},
            "STREAMKEEPER_QUEUE=default has an effect only with STREAMKEEPER_DRIVERS=yarn",
        ),
        ({**ON_YARN, **IN_HDFS, "STREAMKEEPER_QUEUE": "a; b"}, "STREAMKEEPER_QUEUE=a; b is not the name of a queue"),
    ],
)
def test_an_invalid_driver_place_template_or_queue_is_refused(tmp_path: Path, given: dict[str, str], told: str) -> None:
    """An invalid driver place, pod template or queue is refused, and so is a queue or a template that has no effect."""
    with pytest.raises(InvalidInput, match=told):
        read_settings({"STREAMKEEPER_HOME": str(tmp_path), **given})
