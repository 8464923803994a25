"""Accesses the files of a NameNode over HTTP (WebHDFS).

The NameNode stores names and sizes; a file's bytes are exchanged with a DataNode that the NameNode selects.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from functools import partial
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

import msgspec
import requests

from streamkeeper.errors import CheckpointChanged, StoreUnavailable
from streamkeeper.model.coding import decoder_of
from streamkeeper.system.rest_client import Refusal, RestClient, Server

_T = TypeVar("_T")
_RPC_SAYS = "Hadoop IPC port"
"""Text that the RPC port of a NameNode sends in response to an HTTP request."""
_FILE_ERRORS: dict[str, type[OSError]] = {
    "FileNotFoundException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
    "ParentNotDirectoryException": NotADirectoryError,
}
_NUMBERS = {FileNotFoundError: errno.ENOENT, FileExistsError: errno.EEXIST, NotADirectoryError: errno.ENOTDIR}
_HINTS = {
    "SafeModeException": "wait until `hdfs dfsadmin -safemode get` reports that the NameNode has left safe mode",
    "AccessControlException": "give this user the permission, or name another user in HADOOP_USER_NAME",
    "StandbyException": "name the active NameNode",
    "SecurityException": "use a cluster with simple authentication; Kerberos is not supported",
}
_NOBODY = (
    "check that the NameNode is running; its address is dfs.namenode.http-address in HADOOP_CONF_DIR's hdfs-site.xml"
)
_NO_DATANODE = "check that the DataNode is running, and that this machine can reach it by its registered name"


class FileStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a file or folder."""

    file_id: int
    """An id that HDFS never reuses."""
    length: int
    """The file's size in bytes."""
    modification_time: int
    """The modification time in epoch milliseconds."""
    path_suffix: str
    """The name of the file or folder in a listing of the folder that contains it."""
    type: str
    """FILE, DIRECTORY or SYMLINK."""


class _Statuses(msgspec.Struct, rename="pascal"):
    file_status: list[FileStatus]


class _Status(msgspec.Struct, rename="pascal"):
    file_status: FileStatus


class _Listing(msgspec.Struct, rename="pascal"):
    file_statuses: _Statuses


class _Deleted(msgspec.Struct):
    boolean: bool


class _Remote(msgspec.Struct):
    exception: str
    message: str = ""


class _Failure(msgspec.Struct, rename="pascal"):
    remote_exception: _Remote


class Refused(StoreUnavailable):
    """Raised if the NameNode or a DataNode refuses a request."""


class WebHdfs:
    """The files of one NameNode, ``http://host:port``, accessed as ``user``. Threads may share it. Paths are absolute.

    ``root``: the NameNode's RPC URL, for messages. Every call raises FileNotFoundError, FileExistsError or
    NotADirectoryError where the same call on a local disk would. Every call raises Refused if a server refuses it for
    another reason, and StoreUnavailable if no server answers (``RestClient``).
    """

    def __init__(self, root: str, url: str, user: str) -> None:
        self.root, self.url = root, url
        self._user = user
        self._client = RestClient(self._server_at, reason_in=_reason_in, unavailable=StoreUnavailable)

    def status(self, path: str) -> FileStatus:
        """Return the status of a file or folder."""
        return self._decoded(self._ask("inspect", "GET", path, "GETFILESTATUS"), _Status, path).file_status

    def list(self, path: str) -> list[FileStatus]:
        """List a folder in one request. For a file, return its own status under an empty name."""
        return self._decoded(self._ask("list", "GET", path, "LISTSTATUS"), _Listing, path).file_statuses.file_status

    def read(self, path: str) -> bytes:
        """Read a whole file."""
        return self._ask("read", "GET", path, "OPEN").content

    def stream(self, path: str, size: int) -> Iterator[bytes]:
        """Yield a file's content, ``size`` bytes at a time, with a single request.

        A rename of the file does not interrupt the request. A deletion can, and then raises StoreUnavailable.
        """
        with (
            self._ask("read", "GET", path, "OPEN", stream=True) as answer,
            self._client.translating_errors(answer.url, self._doing("read", path)),
        ):
            yield from answer.iter_content(size)

    def create(self, path: str, content: bytes | Iterable[bytes]) -> None:
        """Create a new file with its parent folders; raises the errors of ``content``.

        If a writer terminates, the DataNode completes the file with the bytes received so far. Therefore write under a
        temporary name and rename the file.
        """
        where = self._ask("create", "PUT", path, "CREATE", redirect=False, overwrite="false").headers["Location"]
        doing, judge = self._doing("create", path), partial(self._judge, path)
        self._client.send("PUT", where, doing=doing, judge=judge, data=content)

    def rename(self, path: str, new: str) -> None:
        """Rename a file to an unused name; the NameNode lets exactly one writer succeed.

        The request sets ``renameoptions``. Without this parameter, the NameNode would answer ``false``, or move the
        file into an existing folder of the new name.
        """
        try:
            self._ask("create", "PUT", path, "RENAME", destination=new, renameoptions="NONE", shown_path=new)
        except FileNotFoundError:
            raise CheckpointChanged(f"{self.root}{path} was removed while {new} was being written") from None

    def delete(self, path: str) -> bool:
        """Delete a file or an empty folder; return whether it existed."""
        answer = self._ask("delete", "DELETE", path, "DELETE", recursive="false")
        return self._decoded(answer, _Deleted, path).boolean

    def must_be_rpc_port(self) -> None:
        """Raise Refused unless the port of ``root``, which drivers use, is a NameNode's RPC port."""
        address = self.root.removeprefix("hdfs://")
        address = address if ":" in address else f"{address}:8020"
        try:
            url = f"http://{address}/"
            answer = self._client.send("GET", url, doing=f"{self.root}: ", redirect=False, any_status=True).text
        except StoreUnavailable as error:
            raise Refused(error.message, hint="name the NameNode's RPC address in the URL") from error
        if _RPC_SAYS not in answer:
            raise Refused(
                f"{self.root}: {address} is not an RPC port",
                hint=f"name the NameNode's RPC port in the URL, not the port of WebHDFS ({self.url})",
            )

    def _ask(
        self,
        what: str,
        method: str,
        path: str,
        operation: str,
        *,
        redirect: bool = True,
        stream: bool = False,
        shown_path: str = "",
        **params: str,
    ) -> requests.Response:
        """Send a request to the NameNode.

        ``what``: the operation's name in messages.
        ``method``: the HTTP method.
        ``path``: the file or folder.
        ``operation``: WebHDFS's name of the operation.
        ``redirect``: follow the redirection to a DataNode.
        ``stream``: leave the body unread.
        ``shown_path``: the path in messages, if it differs from ``path``.
        ``params``: further parameters of the operation.
        """
        return self._client.send(
            method,
            f"{self.url}/webhdfs/v1{quote(path)}",
            doing=self._doing(what, shown_path or path),
            judge=partial(self._judge, shown_path or path),
            params={"op": operation, "user.name": self._user, **params},
            redirect=redirect,
            stream=stream,
        )

    def _decoded(self, answer: requests.Response, kind: type[_T], path: str) -> _T:
        try:
            return decoder_of(kind).decode(answer.content)
        except msgspec.MsgspecError as error:
            raise Refused(f"cannot inspect {self.root}{path}: {self.url} is not WebHDFS", hint=_NOBODY) from error

    def _judge(self, path: str, refusal: Refusal) -> Exception:
        """Return the error for a refused request, according to the name of the exception that the server reports."""
        failure = _failure_in(refusal.body)
        exception = failure.exception if failure is not None else ""
        if kind := _FILE_ERRORS.get(exception):
            return kind(_NUMBERS[kind], os.strerror(_NUMBERS[kind]), f"{self.root}{path}")
        hint = _HINTS.get(exception, _HINTS["SecurityException"] if refusal.status == HTTPStatus.UNAUTHORIZED else "")
        return Refused(f"{refusal.doing}{refusal.reason}", hint=hint)

    def _doing(self, what: str, path: str) -> str:
        return f"cannot {what} {self.root}{path}: "

    def _server_at(self, url: str) -> Server:
        # A request has its host in lower case, the Hadoop configuration may have it in upper case.
        if url.lower().startswith(f"{self.url}/".lower()):
            return Server(name=self.url, unanswered=_NOBODY)
        return Server(name="/".join(url.split("/")[:3]), unanswered=_NO_DATANODE)


def _reason_in(body: bytes) -> str:
    failure = _failure_in(body)
    return "" if failure is None else " ".join(failure.message.split()) or failure.exception


def _failure_in(body: bytes) -> _Remote | None:
    try:
        return decoder_of(_Failure).decode(body).remote_exception
    except msgspec.MsgspecError:
        return None
