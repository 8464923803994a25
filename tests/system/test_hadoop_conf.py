"""Tests finding the HTTP addresses of Hadoop's servers in configuration files as cluster administrators provide
them.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.runners.yarn_rest import manager_url
from streamkeeper.system.hadoop_conf import hadoop_user, webhdfs_url

Given = Callable[[dict[str, str]], dict[str, str]]
FILES = {"core-site.xml": ("fs.", "hadoop."), "hdfs-site.xml": ("dfs.",), "yarn-site.xml": ("yarn.",)}
RPC, HTTP = "dfs.namenode.rpc-address", "dfs.namenode.http-address"


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """A function that writes these properties to configuration files and returns the environment that points to
    them.
    """

    def write(conf: dict[str, str]) -> dict[str, str]:
        for name, prefixes in FILES.items():
            rows = "".join(
                f"<property>\n<name>{key}</name>\n<value> {value} </value><final>true</final></property>"
                for key, value in conf.items()
                if key.startswith(prefixes)
            )
            (tmp_path / name).write_text(f"<?xml version='1.0'?><configuration>{rows}</configuration>")
        return {"HADOOP_CONF_DIR": str(tmp_path)}

    return write


@pytest.mark.parametrize(
    ("authority", "conf", "url"),
    [
        ("nn:8020", {}, "http://nn:9870"),
        ("nn", {HTTP: "web:50070", "fs.defaultFS": "hdfs://nn:8020/"}, "http://web:50070"),
        ("nn:9000", {HTTP: "0.0.0.0:50070", RPC: "nn:9000"}, "http://nn:50070"),
        ("other:8020", {HTTP: "web:50070", RPC: "nn:8020", "fs.defaultFS": "hdfs://nn"}, "http://other:9870"),
        ("n2:8020", {f"{RPC}.a.n1": "n1:8020", f"{RPC}.a.n2": "n2", f"{HTTP}.a.n2": "w2:1"}, "http://w2:1"),
    ],
    ids=["no file says", "the default one", "any address", "another cluster's", "one of a nameservice"],
)
def test_the_http_address_configured_for_the_rpc_address_is_used(
    given: Given, authority: str, conf: dict[str, str], url: str
) -> None:
    """A NameNode's HTTP address is the one configured for its RPC address, never that of a different cluster; otherwise
    it is on the NameNode's own host.
    """
    assert webhdfs_url(authority, given(conf)) == url


def test_without_a_configuration_the_default_http_port_of_hadoop_is_used() -> None:
    """Without configuration files, the NameNode's HTTP address uses Hadoop's default port."""
    assert webhdfs_url("nn:8020", {}) == "http://nn:9870"


@pytest.mark.parametrize(
    ("conf", "told"),
    [
        ({"dfs.nameservices": "other,ns1"}, "hdfs://ns1 is a nameservice"),
        ({"dfs.ha.namenodes.ns1": "n1,n2"}, "hdfs://ns1 is a nameservice"),
        ({"hadoop.security.authentication": "kerberos"}, "requires Kerberos, which is not supported"),
        ({"dfs.http.policy": "HTTPS_ONLY"}, "on HTTPS only"),
    ],
)
def test_unsupported_hdfs_clusters_are_refused_with_the_reason(given: Given, conf: dict[str, str], told: str) -> None:
    """A nameservice, Kerberos and HTTPS-only clusters are refused with the reason."""
    with pytest.raises(Unsupported, match=told):
        webhdfs_url("ns1", given(conf))


def test_an_unreadable_hadoop_configuration_is_refused_with_the_reason(given: Given, tmp_path: Path) -> None:
    """A missing configuration directory, a file that is not XML and an address with variables are refused with the
    reason.
    """
    with pytest.raises(InvalidInput, match="is not a directory"):
        webhdfs_url("nn", {"HADOOP_CONF_DIR": str(tmp_path / "none")})
    environ = given({"fs.defaultFS": "hdfs://nn", HTTP: "${nn.host}:50070"})
    with pytest.raises(InvalidInput, match="variables are not resolved"):
        webhdfs_url("nn", environ)
    (tmp_path / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(InvalidInput, match=r"hdfs-site.xml cannot be read"):
        webhdfs_url("nn", environ)


def test_the_hadoop_user_is_hadoop_user_name_or_the_operating_system_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hadoop user is ``HADOOP_USER_NAME``, or else the user of the operating system; ``USER`` and ``LOGNAME`` are
    ignored.
    """
    monkeypatch.setenv("USER", "ada")
    monkeypatch.setenv("LOGNAME", "ada")
    mine = pwd.getpwuid(os.geteuid()).pw_name
    assert (hadoop_user({}), hadoop_user({"HADOOP_USER_NAME": "streams"})) == (mine, "streams")


MANAGER = "yarn.resourcemanager.webapp.address"


@pytest.mark.parametrize(
    ("conf", "url"),
    [
        ({MANAGER: "rm.example:8090"}, "http://rm.example:8090"),
        ({"yarn.resourcemanager.hostname": "rm.example"}, "http://rm.example:8088"),
        ({MANAGER: "0.0.0.0:8090", "yarn.resourcemanager.hostname": "rm.example"}, "http://rm.example:8090"),
        (
            {MANAGER: "${yarn.resourcemanager.hostname}:8088", "yarn.resourcemanager.hostname": "rm.example"},
            "http://rm.example:8088",
        ),
    ],
)
def test_the_resource_manager_url_is_its_configured_address_or_the_default_port(
    given: Given, conf: dict[str, str], url: str
) -> None:
    """The ResourceManager's URL is its configured HTTP address, or else its host with Hadoop's default port."""
    assert manager_url(given(conf)) == url


@pytest.mark.parametrize(
    ("conf", "told"),
    [
        ({}, "HADOOP_CONF_DIR names no ResourceManager"),
        ({MANAGER: "${rm.host}:8088"}, "HADOOP_CONF_DIR names no ResourceManager"),
        ({MANAGER: "rm:1", "yarn.resourcemanager.ha.enabled": "true"}, "several ResourceManagers"),
        ({MANAGER: "rm:1", "hadoop.security.authentication": "kerberos"}, "Kerberos"),
        ({MANAGER: "rm:1", "yarn.http.policy": "HTTPS_ONLY"}, "HTTPS only"),
    ],
)
def test_unsupported_yarn_configurations_are_refused_with_the_reason(
    given: Given, conf: dict[str, str], told: str
) -> None:
    """A YARN configuration without a ResourceManager, with several, with Kerberos or with HTTPS only is refused with
    the reason.
    """
    with pytest.raises(InvalidInput, match=told):
        manager_url(given(conf))
