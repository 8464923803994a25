"""WebHDFS: a NameNode's files over HTTP, with every failure reported in one line.

The NameNode has names and sizes; a file's bytes are exchanged with a DataNode that it names.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar
from urllib.parse import quote

import msgspec
import requests
from requests.adapters import HTTPAdapter

from streamkeeper.errors import CheckpointChanged, StoreUnavailable
from streamkeeper.model.coding import decoder_of
from streamkeeper.system import clock

_T = TypeVar("_T")
_TIMEOUTS_S = (5.0, 30.0)
_PAUSES_S = (0.2, 0.4)
_CONNECTIONS = 16
_RPC_SAYS = "Hadoop IPC port"
"""Text in the HTTP response of a NameNode's RPC port."""
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
    """A file or folder."""

    file_id: int
    """An id that HDFS never reuses."""
    length: int
    """Its size in bytes."""
    modification_time: int
    """Its modification time in epoch milliseconds."""
    path_suffix: str
    """Its name in a listing of its folder."""
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
    another reason, and StoreUnavailable if no server responds. The timeouts are 5 s for a connection and 30 s for
    further bytes. Read-only requests are tried three times.
    """

    def __init__(self, root: str, url: str, user: str) -> None:
        self.root, self.url = root, url
        self._user = user
        self._session = requests.Session()
        # Proxies and passwords in .netrc are not meant for a cluster.
        self._session.trust_env = False
        self._session.mount("http://", HTTPAdapter(pool_maxsize=_CONNECTIONS))

    def status(self, path: str) -> FileStatus:
        """Return the status of a file or folder."""
        return self._decoded(self._ask("inspect", "GET", path, "GETFILESTATUS"), _Status, path).file_status

    def list(self, path: str) -> list[FileStatus]:
        """List a folder in one request. For a file, return its own status under an empty name."""
        return self._decoded(self._ask("list", "GET", path, "LISTSTATUS"), _Listing, path).file_statuses.file_status

    def read(self, path: str) -> bytes:
        """Read a whole file."""
        with self._told("read", path):
            return self._ask("read", "GET", path, "OPEN").content

    def stream(self, path: str, size: int) -> Iterator[bytes]:
        """Yield a file's content, ``size`` bytes at a time, with a single request.

        A rename of the file does not interrupt the request. A deletion can, and then raises StoreUnavailable.
        """
        with self._told("read", path), self._ask("read", "GET", path, "OPEN", stream=True) as answer:
            yield from answer.iter_content(size)

    def create(self, path: str, content: bytes | Iterable[bytes]) -> None:
        """Create a new file with its parent folders; raises the errors of ``content``.

        If a writer dies, the DataNode completes the file with the bytes received so far. Therefore write under a
        temporary name and rename the file.
        """
        where = self._ask("create", "PUT", path, "CREATE", redirect=False, overwrite="false").headers["Location"]
        broken: list[OSError] = []
        body = content if isinstance(content, bytes) else _noting(content, broken)
        with self._told("create", path):
            try:
                answer = self._session.put(where, data=body, timeout=_TIMEOUTS_S)
            except requests.ConnectionError:
                if broken:
                    raise broken[0] from None
                raise
            self._checked("create", path, answer)

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
            answer = self._session.get(f"http://{address}/", timeout=_TIMEOUTS_S, allow_redirects=False).text
        except requests.RequestException as error:
            why = f"no server answers at {address} ({_reason(error)})"
            raise Refused(f"{self.root}: {why}", hint="name the NameNode's RPC address in the URL") from error
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
        request = partial(
            self._session.request,
            method,
            f"{self.url}/webhdfs/v1{quote(path)}",
            params={"op": operation, "user.name": self._user, **params},
            timeout=_TIMEOUTS_S,
            allow_redirects=redirect,
            stream=stream,
        )
        with self._told(what, shown_path or path):
            for pause in _PAUSES_S if method == "GET" else ():
                with suppress(requests.ConnectionError):
                    return self._checked(what, path, request())
                clock.sleep(pause)
            return self._checked(what, shown_path or path, request())

    def _checked(self, what: str, path: str, answer: requests.Response) -> requests.Response:
        if answer.status_code < 400:
            return answer
        try:
            failure = decoder_of(_Failure).decode(answer.content).remote_exception
        except msgspec.MsgspecError:
            failure = _Remote(f"HTTP {answer.status_code}", answer.reason or "")
        if kind := _FILE_ERRORS.get(failure.exception):
            raise kind(_NUMBERS[kind], os.strerror(_NUMBERS[kind]), f"{self.root}{path}")
        why = " ".join(failure.message.split()) or failure.exception
        hint = _HINTS.get(failure.exception, _HINTS["SecurityException"] if answer.status_code == 401 else "")
        raise Refused(f"cannot {what} {self.root}{path}: {why}", hint=hint)

    def _decoded(self, answer: requests.Response, kind: type[_T], path: str) -> _T:
        try:
            return decoder_of(kind).decode(answer.content)
        except msgspec.MsgspecError as error:
            raise Refused(f"cannot inspect {self.root}{path}: {self.url} is not WebHDFS", hint=_NOBODY) from error

    @contextmanager
    def _told(self, what: str, path: str) -> Iterator[None]:
        try:
            yield
        except requests.RequestException as error:
            asked = str(error.request.url) if error.request is not None else self.url
            is_namenode = asked.startswith(self.url)
            server = self.url if is_namenode else "/".join(asked.split("/")[:3])
            raise StoreUnavailable(
                f"cannot {what} {self.root}{path}: {server} does not answer ({_reason(error)})",
                hint=_NOBODY if is_namenode else _NO_DATANODE,
            ) from error


def _noting(content: Iterable[bytes], broken: list[OSError]) -> Iterator[bytes]:
    """Yield the content and note its own errors, which the client would mistake for connection errors."""
    try:
        yield from content
    except OSError as error:
        broken.append(error)
        raise


def _reason(error: BaseException) -> str:
    """Return the operating system's message, without the wrappers of other libraries."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return "timed out" if isinstance(error, requests.Timeout) else type(error).__name__
