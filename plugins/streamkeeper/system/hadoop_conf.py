"""The HTTP addresses of Hadoop's servers and the user for them, read from ``HADOOP_CONF_DIR`` like Hadoop's clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.system.system_user import user_name

_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
_RPC, _HTTP = "dfs.namenode.rpc-address", "dfs.namenode.http-address"
_RPC_PORT, _HTTP_PORT = 8020, 9870
ANY_HOST = ("0.0.0.0", "")
"""The hosts in a listening address that stand for all interfaces, and so name no host to connect to."""


def webhdfs_url(authority: str, environ: Mapping[str, str]) -> str:
    """Return the ``http://host:port`` at which the NameNode with the RPC address ``authority`` serves WebHDFS.

    The address is read from ``HADOOP_CONF_DIR``. If the files there contain none for this NameNode, the result is the
    same host with Hadoop's default port. Raises Unsupported for a nameservice, for Kerberos and for HTTPS. Raises
    InvalidInput for unreadable files, and for an address that contains a variable.
    """
    conf = read_hadoop_conf(environ)
    known_services = conf.get("dfs.nameservices", "").replace(",", " ").split()
    if authority in known_services or f"dfs.ha.namenodes.{authority}" in conf:
        raise Unsupported(
            f"hdfs://{authority} is a nameservice, which is not supported because it may have several NameNodes",
            hint="write host:port of one NameNode",
        )
    if conf.get("hadoop.security.authentication", "simple").lower() != "simple":
        raise Unsupported(
            f"hdfs://{authority}: HADOOP_CONF_DIR requires Kerberos, which is not supported",
            hint="use a cluster with simple authentication, S3 or a local directory",
        )
    if conf.get("dfs.http.policy", "").upper() == "HTTPS_ONLY":
        raise Unsupported(
            f"hdfs://{authority}: its WebHDFS is on HTTPS only, which is not supported",
            hint="set dfs.http.policy to HTTP_AND_HTTPS",
        )
    host = authority.partition(":")[0]
    address = _http_address(authority, conf)
    if "${" in address:
        raise InvalidInput(
            f"{_HTTP} is {address}: variables are not resolved here", hint="replace the variable by the address"
        )
    http_host, _, port = address.rpartition(":")
    return f"http://{host if http_host in ANY_HOST else http_host}:{port or _HTTP_PORT}"


def hadoop_user(environ: Mapping[str, str]) -> str:
    """Return ``HADOOP_USER_NAME``; if the variable is unset or empty, return the operating system's user."""
    return environ.get("HADOOP_USER_NAME") or user_name()


def read_hadoop_conf(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in the files of ``HADOOP_CONF_DIR``; empty if the variable is not set."""
    folder = environ.get("HADOOP_CONF_DIR", "")
    conf: dict[str, str] = {}
    if folder and not Path(folder).is_dir():
        raise InvalidInput(
            f"HADOOP_CONF_DIR={folder} is not a directory",
            hint="set the variable to the directory with hdfs-site.xml, or unset it",
        )
    for file in (Path(folder, name) for name in _FILES if folder):
        try:
            found = ElementTree.parse(file).getroot()
        except FileNotFoundError:
            continue
        except (OSError, ElementTree.ParseError) as error:
            raise InvalidInput(
                f"{file} cannot be read: {error}", hint="correct the file, or set HADOOP_CONF_DIR to another directory"
            ) from error
        for each in found.iter("property"):
            conf[each.findtext("name", "").strip()] = each.findtext("value", "").strip()
    return conf


def _http_address(authority: str, conf: Mapping[str, str]) -> str:
    """Return the HTTP address configured for the NameNode with this RPC address; empty if none is configured."""
    for key, address in conf.items():
        if key.startswith(_RPC) and _rpc_address(address) == _rpc_address(authority):
            return conf.get(_HTTP + key.removeprefix(_RPC), "")
    if _rpc_address(conf.get("fs.defaultFS", "").removeprefix("hdfs://").rstrip("/")) == _rpc_address(authority):
        return conf.get(_HTTP, "")
    return ""


def _rpc_address(text: str) -> tuple[str, str]:
    host, _, port = text.lower().partition(":")
    return host, port or str(_RPC_PORT)
