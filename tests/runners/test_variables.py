"""Tests which environment variables a driver inherits from the process that starts it and which come from the
installation's settings.
"""

from __future__ import annotations

import pytest

from streamkeeper.model.settings.settings import Settings
from streamkeeper.runners.variables import driver_variables, passed_to_containers


def test_a_driver_inherits_only_the_variables_of_its_launcher_that_it_needs() -> None:
    """A driver inherits the location of the cluster with its checkpoints, the user name for it, the AWS region and the
    host name that executors use; a proxy and a Kerberos cache are not passed on.
    """
    settings = Settings(store="/s", checkpoints="hdfs://namenode:8020/cp", jobs="/j", home="/h")
    needed = {"HADOOP_CONF_DIR": "/etc/hadoop", "HADOOP_USER_NAME": "streams", "AWS_REGION": "eu-central-1"}
    needed |= {"SPARK_LOCAL_HOSTNAME": "drivers"}
    found = driver_variables({**needed, "HTTP_PROXY": "http://proxy", "KRB5CCNAME": "/tmp/cc"}, settings)
    assert needed.items() <= found.items()
    assert found["STREAMKEEPER_CHECKPOINTS"] == settings.checkpoints
    assert not {"HTTP_PROXY", "KRB5CCNAME"} & found.keys()


def test_a_container_receives_locations_but_no_credentials_of_its_launcher() -> None:
    """A container receives variables with locations such as ``AWS_REGION``; secret keys, ``HOME`` and empty variables
    are left out.
    """
    told = {"AWS_REGION": "eu-central-1", "AWS_SECRET_ACCESS_KEY": "hunter2", "JDK_JAVA_OPTIONS": "", "HOME": "/root"}
    assert passed_to_containers(told) == {"AWS_REGION": "eu-central-1", "LC_CTYPE": "C.UTF-8"}


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ({"LANG": "de_DE.UTF-8"}, {"LANG": "de_DE.UTF-8"}),
        ({"LANG": "C", "LC_ALL": "en_US.utf8"}, {"LANG": "C", "LC_ALL": "en_US.utf8"}),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, {"LANG": "C", "LC_CTYPE": "C.UTF-8"}),
        ({"LANG": "de_DE.ISO-8859-1"}, {"LANG": "de_DE.ISO-8859-1", "LC_CTYPE": "C.UTF-8"}),
        ({}, {"LC_CTYPE": "C.UTF-8"}),
    ],
)
def test_a_driver_names_files_in_utf_8(given: dict[str, str], passed: dict[str, str]) -> None:
    """A driver runs under a UTF-8 locale: under any other encoding its JVM silently skips input files whose names it
    cannot decode.
    """
    found = driver_variables(given, Settings(store="/s", checkpoints="/c", jobs="/j", home="/h"))
    assert {key: value for key, value in found.items() if key.startswith(("LANG", "LC_"))} == passed
