"""The HTTP addresses and the user for Hadoop's servers, from ``HADOOP_CONF_DIR`` as in Hadoop's clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.system_user import user_name

_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
_RPC, _HTTP = "dfs.namenode.rpc-address", "dfs.namenode.http-address"
_RPC_PORT, _HTTP_PORT = 8020, 9870
_ANY_HOST = ("0.0.0.0", "")
_MANAGER_HOST, _MANAGER_HTTP = "yarn.resourcemanager.hostname", "yarn.resourcemanager.webapp.address"
_MANAGER_PORT = 8088


def webhdfs_url(authority: str, environ: Mapping[str, str]) -> str:
    """``http://host:port`` of the NameNode that ``hdfs://<authority>`` names by its RPC address.

    The matching HTTP address in ``HADOOP_CONF_DIR``; without one, the same host at Hadoop's default port. Raises
    Unsupported for a nameservice of several NameNodes, Kerberos and HTTPS, InvalidInput for unreadable files.
    """
    conf = read_hadoop_conf(environ)
    known_services = conf.get("dfs.nameservices", "").replace(",", " ").split()
    if authority in known_services or f"dfs.ha.namenodes.{authority}" in conf:
        raise Unsupported(
            f"hdfs://{authority} is a nameservice, which may be of several NameNodes: not supported",
            hint="write host:port of one NameNode",
        )
    if conf.get("hadoop.security.authentication", "simple").lower() != "simple":
        raise Unsupported(
            f"hdfs://{authority}: HADOOP_CONF_DIR asks for Kerberos, which is not supported for checkpoints",
            hint="use a cluster with simple authentication, S3 or a local directory",
        )
    if conf.get("dfs.http.policy", "").upper() == "HTTPS_ONLY":
        raise Unsupported(
            f"hdfs://{authority}: its WebHDFS is on HTTPS only, which is not supported",
            hint="let dfs.http.policy be HTTP_AND_HTTPS",
        )
    host = authority.partition(":")[0]
    address = _http_address(authority, conf)
    if "${" in address:
        raise InvalidInput(f"{_HTTP} is {address}: variables are not resolved here", hint="write the address itself")
    http_host, _, port = address.rpartition(":")
    return f"http://{host if http_host in _ANY_HOST else http_host}:{port or _HTTP_PORT}"


def manager_url(environ: Mapping[str, str]) -> str:
    """``http://host:port`` of YARN's ResourceManager.

    Raises InvalidInput if ``HADOOP_CONF_DIR`` names none, Unsupported for several of them, Kerberos and HTTPS.
    """
    conf = read_hadoop_conf(environ)
    if conf.get("yarn.resourcemanager.ha.enabled", "").lower() == "true":
        raise Unsupported("yarn-site.xml names several ResourceManagers: not supported", hint="use a cluster of one")
    if conf.get("hadoop.security.authentication", "simple").lower() != "simple":
        raise Unsupported("HADOOP_CONF_DIR asks for Kerberos, which is not supported for drivers on YARN")
    if conf.get("yarn.http.policy", "").upper() == "HTTPS_ONLY":
        raise Unsupported("YARN is on HTTPS only, which is not supported", hint="let yarn.http.policy be HTTP_ONLY")
    named = conf.get(_MANAGER_HOST, "")
    host, _, port = conf.get(_MANAGER_HTTP, "").replace(f"${{{_MANAGER_HOST}}}", named).rpartition(":")
    host = named if host in _ANY_HOST else host
    if not host or "${" in host:
        raise InvalidInput(
            "HADOOP_CONF_DIR names no ResourceManager",
            hint=f"name the directory whose yarn-site.xml has {_MANAGER_HTTP} or {_MANAGER_HOST}",
        )
    return f"http://{host}:{port or _MANAGER_PORT}"


def hadoop_user(environ: Mapping[str, str]) -> str:
    """``HADOOP_USER_NAME``, otherwise the operating system's user."""
    return environ.get("HADOOP_USER_NAME") or user_name()


def read_hadoop_conf(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings in the files of ``HADOOP_CONF_DIR``; empty without the variable."""
    folder = environ.get("HADOOP_CONF_DIR", "")
    conf: dict[str, str] = {}
    if folder and not Path(folder).is_dir():
        raise InvalidInput(
            f"HADOOP_CONF_DIR={folder} is no directory", hint="name the one with hdfs-site.xml, or unset it"
        )
    for file in (Path(folder, name) for name in _FILES if folder):
        try:
            found = ElementTree.parse(file).getroot()
        except FileNotFoundError:
            continue
        except (OSError, ElementTree.ParseError) as error:
            raise InvalidInput(f"{file} cannot be read: {error}", hint="HADOOP_CONF_DIR names its directory") from error
        for each in found.iter("property"):
            conf[each.findtext("name", "").strip()] = each.findtext("value", "").strip()
    return conf


def _http_address(authority: str, conf: Mapping[str, str]) -> str:
    """HTTP address of the configured NameNode with this RPC address; empty if only other clusters are configured."""
    for key, address in conf.items():
        if key.startswith(_RPC) and _rpc_address(address) == _rpc_address(authority):
            return conf.get(_HTTP + key.removeprefix(_RPC), "")
    if _rpc_address(conf.get("fs.defaultFS", "").removeprefix("hdfs://").rstrip("/")) == _rpc_address(authority):
        return conf.get(_HTTP, "")
    return ""


def _rpc_address(text: str) -> tuple[str, str]:
    host, _, port = text.lower().partition(":")
    return host, port or str(_RPC_PORT)
