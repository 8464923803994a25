"""Tests how failed HTTP requests are reported, by the client and by the modules that use it, with a real server on
loopback.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamkeeper.checkpoints.webhdfs import Refused, WebHdfs
from streamkeeper.errors import NotFound, PermanentError, StoreUnavailable, StreamkeeperError, TemporaryError
from streamkeeper.runners.kubernetes_api import AlreadyThere, KubernetesApi
from streamkeeper.runners.yarn_rest import Attempt, ResourceManager
from streamkeeper.system import rest_client
from streamkeeper.system.rest_client import Refusal, RestClient, Server
from tests.runners.cluster_server import kubeconfig
from tests.system.failing_server import (
    CHUNK_CUT_OFF,
    CLOSES,
    CUT_OFF,
    NO_HTTP,
    WAITS,
    WAITS_WITHIN,
    failing_server,
    refusing_url,
    status,
)

TIMEOUT_S = 0.4
UNANSWERED, DENIED, WRONG = "check that it runs", "ask for the right", "correct the request"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "_PAUSES_S", (0.01, 0.02))


class Unavailable(TemporaryError):
    """The error of a client for a server that cannot process a request now."""


def client(url: str) -> RestClient:
    server = Server(
        name=f"One at {url}",
        unanswered=UNANSWERED,
        denied=DENIED,
        wrong=WRONG,
        timeouts_s=(TIMEOUT_S, TIMEOUT_S),
    )
    return RestClient(lambda _: server, reason_in=lambda body: body.decode(), unavailable=Unavailable)


def test_an_answer_is_returned_with_its_content() -> None:
    """A successful answer is returned after one request and decoded into its type."""
    with failing_server(status(200, b'{"a": 1}')) as server:
        one = client(server.url)
        assert one.decoded(one.send("GET", server.url), dict[str, int]) == {"a": 1}
        assert server.requests == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (WAITS, "timed out"),
        (WAITS_WITHIN, "timed out"),
        (CLOSES, "the connection was closed"),
        (CUT_OFF, "the answer was cut off"),
        (CHUNK_CUT_OFF, "the answer was cut off"),
        (NO_HTTP, "the answer is not HTTP"),
    ],
    ids=["waits", "waits-within", "closes", "cut-off", "chunk-cut-off", "no-http"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_server_without_a_complete_answer_is_unavailable(method: str, answer: bytes, why: str) -> None:
    """A server without a complete HTTP answer is unavailable within the timeouts, in a line with the action, the
    server, the reason and the remedy.
    """
    began = time.monotonic()
    with failing_server(answer) as server, pytest.raises(Unavailable) as failed:
        client(server.url).send(method, server.url, doing="cannot read /a: ")
    assert str(failed.value) == f"cannot read /a: One at {server.url} does not answer ({why}) ({UNANSWERED})"
    assert time.monotonic() - began < 8 * TIMEOUT_S


def test_a_server_that_refuses_connections_is_unavailable() -> None:
    """A server that refuses connections is unavailable, with the operating system's reason."""
    url = refusing_url()
    with pytest.raises(Unavailable, match=f"^One at {url} does not answer .Connection refused. .{UNANSWERED}.$"):
        client(url).send("GET", url)


@pytest.mark.parametrize(
    ("code", "error", "hint"),
    [
        (400, PermanentError, WRONG),
        (401, PermanentError, DENIED),
        (403, PermanentError, DENIED),
        (404, NotFound, ""),
        (409, PermanentError, WRONG),
        (429, Unavailable, UNANSWERED),
        (500, Unavailable, UNANSWERED),
        (503, Unavailable, UNANSWERED),
    ],
)
def test_a_refusal_is_an_error_by_its_status(code: int, error: type[StreamkeeperError], hint: str) -> None:
    """A refusal raises the error of its status, with the first line of the server's reason and the remedy for that
    status, and is not retried.
    """
    with failing_server(status(code, b"\n no room \nat all")) as server, pytest.raises(error) as failed:
        client(server.url).send("GET", server.url)
    assert type(failed.value) is error
    refuses = "" if code == 404 else " refuses"
    assert failed.value.message == f"One at {server.url}{refuses}: no room"
    assert failed.value.hint == hint
    assert server.requests == 1


def test_a_refusal_without_content_is_reported_by_its_status() -> None:
    """A refusal without content is reported by its HTTP status."""
    with failing_server(status(500)) as server, pytest.raises(Unavailable, match="refuses: HTTP 500 Told"):
        client(server.url).send("GET", server.url)


def test_a_refusal_that_is_cut_off_is_no_refusal() -> None:
    """A refusal whose content is cut off counts as an unavailable server, because its reason is unknown."""
    cut = status(403, b"a reason").replace(b"Length: 8", b"Length: 80")
    with failing_server(cut) as server, pytest.raises(Unavailable, match="the answer was cut off"):
        client(server.url).send("GET", server.url)


def test_a_module_can_raise_its_own_error_for_a_status() -> None:
    """A module can raise its own error for a status, and other statuses raise the general one."""

    def conflict(refusal: Refusal) -> Exception | None:
        return AlreadyThere(refusal.reason) if refusal.status == 409 else None

    with failing_server(status(409, b"it exists"), status(403)) as server:
        with pytest.raises(AlreadyThere, match="it exists"):
            client(server.url).send("POST", server.url, judge=conflict)
        with pytest.raises(PermanentError):
            client(server.url).send("POST", server.url, judge=conflict)


@pytest.mark.parametrize("failures", [1, 2])
def test_a_get_whose_connection_is_closed_is_tried_again(failures: int) -> None:
    """A GET whose connection is closed is retried and succeeds once the server answers."""
    with failing_server(*[CLOSES] * failures, status(200, b"ok")) as server:
        assert client(server.url).send("GET", server.url).content == b"ok"
    assert server.requests == failures + 1


@pytest.mark.parametrize(
    ("method", "answer", "requests"),
    [("GET", CLOSES, 3), ("POST", CLOSES, 1), ("GET", WAITS, 1), ("GET", CUT_OFF, 1)],
    ids=["get-closed", "post-closed", "get-waits", "get-cut-off"],
)
def test_a_post_or_a_get_that_timed_out_is_sent_once(method: str, answer: bytes, requests: int) -> None:
    """A POST, which may have taken effect, and a GET that timed out or was cut off are sent once; a GET whose
    connection was closed is sent three times.
    """
    with failing_server(answer) as server, pytest.raises(Unavailable):
        client(server.url).send(method, server.url)
    assert server.requests == requests


def test_an_answer_of_an_unexpected_form_counts_as_an_unavailable_server() -> None:
    """An answer of an unexpected form, such as a proxy's HTML page, counts as an unavailable server."""
    with failing_server(status(200, b"<html>")) as server:
        one = client(server.url)
        answer = one.send("GET", server.url)
        with pytest.raises(Unavailable, match=f"^the answer of One at {server.url} cannot be read: "):
            one.decoded(answer, dict[str, int])


def test_an_error_while_the_request_body_is_read_is_raised_unchanged() -> None:
    """An error while the request's body is read is raised unchanged and does not make the server unavailable."""

    def parts() -> Iterator[bytes]:
        yield b"a"
        raise PermissionError(13, "not yours")

    with failing_server(WAITS) as server, pytest.raises(PermissionError, match="not yours"):
        client(server.url).send("PUT", server.url, data=parts())


def test_neither_a_proxy_nor_a_password_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests ignore a proxy in the environment, which is not meant for a cluster, and reach the server directly."""
    monkeypatch.setenv("http_proxy", refusing_url())
    monkeypatch.setenv("no_proxy", "")
    with failing_server(status(200, b"ok")) as server:
        assert client(server.url).send("GET", server.url).content == b"ok"


def of_kubernetes(folder: Path, url: str) -> Callable[[], Any]:
    return partial(KubernetesApi(kubeconfig(folder, url)).create_pod, "n", {})


def of_yarn(_: Path, url: str) -> Callable[[], Any]:
    return ResourceManager(url, "ada").must_answer


def of_a_node(_: Path, url: str) -> Callable[[], Any]:
    attempt = Attempt(app_attempt_id="a", start_time=1, container_id="c", node_http_address=url.removeprefix("http://"))
    return partial(ResourceManager("http://manager", "ada").node_started_at, attempt)


def of_hdfs(_: Path, url: str) -> Callable[[], Any]:
    return partial(WebHdfs("hdfs://one:8020", url, "ada").read, "/a")


MODULES = [of_kubernetes, of_yarn, of_a_node, of_hdfs]
NAMES = {
    of_kubernetes: "Kubernetes at {url}",
    of_yarn: "ResourceManager {url}",
    of_a_node: "NodeManager {address}",
    of_hdfs: "cannot read hdfs://one:8020/a: {url}",
}


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("answer", [None, CLOSES, CUT_OFF, NO_HTTP], ids=["refused", "closed", "cut-off", "no-http"])
def test_every_module_names_the_server_that_does_not_answer(
    tmp_path: Path, module: Callable[[Path, str], Callable[[], Any]], answer: bytes | None
) -> None:
    """Every module names the server that does not answer, with a remedy; for a checkpoint's server the error is
    ``StoreUnavailable``.
    """
    with failing_server(answer or b"") as server:
        url = server.url if answer is not None else refusing_url()
        name = NAMES[module].format(url=url, address=url.removeprefix("http://"))
        with pytest.raises(TemporaryError) as failed:
            module(tmp_path, url)()
    assert failed.value.message.startswith(f"{name} does not answer (")
    assert failed.value.hint.startswith("check that ")
    assert isinstance(failed.value, StoreUnavailable) is (module is of_hdfs)


@pytest.mark.parametrize(
    ("code", "kubernetes", "yarn", "hdfs"),
    [
        (401, PermanentError, PermanentError, Refused),
        (403, PermanentError, PermanentError, Refused),
        (404, NotFound, NotFound, Refused),
        (409, AlreadyThere, PermanentError, Refused),
        (500, TemporaryError, TemporaryError, Refused),
    ],
)
def test_every_module_raises_the_same_error_for_a_status_with_few_exceptions(
    tmp_path: Path, code: int, kubernetes: type[Exception], yarn: type[Exception], hdfs: type[Exception]
) -> None:
    """Every module raises the same error for a status, except for a taken name in Kubernetes and for all refusals of a
    NameNode.
    """
    expected = {of_kubernetes: kubernetes, of_yarn: yarn, of_a_node: yarn, of_hdfs: hdfs}
    for module, error in expected.items():
        with failing_server(status(code, b'{"message": "not now"}')) as server, pytest.raises(error) as failed:
            module(tmp_path, server.url)()
        assert type(failed.value) is error, module


def test_an_exceeded_kubernetes_quota_is_a_temporary_error(tmp_path: Path) -> None:
    """An exceeded Kubernetes quota is a temporary error, unlike other refusals with status 403."""
    body = json.dumps({"message": "pods is forbidden: exceeded quota: small"}).encode()
    with failing_server(status(403, body)) as server, pytest.raises(TemporaryError, match="the namespace has no room"):
        of_kubernetes(tmp_path, server.url)()


@pytest.mark.parametrize(
    ("exception", "error"),
    [
        ("FileNotFoundException", FileNotFoundError),
        ("FileAlreadyExistsException", FileExistsError),
        ("ParentNotDirectoryException", NotADirectoryError),
        ("SafeModeException", Refused),
        ("AccessControlException", Refused),
    ],
)
def test_a_namenode_refusal_raises_the_error_for_the_name_of_its_exception(
    exception: str, error: type[Exception]
) -> None:
    """A refusal by a NameNode raises the error that belongs to the name of its exception, whatever the HTTP status."""
    body = msgspec.json.encode({"RemoteException": {"exception": exception, "message": "not now\nat all"}})
    with failing_server(status(403, body)) as server, pytest.raises(error) as failed:
        of_hdfs(Path(), server.url)()
    if isinstance(failed.value, Refused):
        assert failed.value.message == "cannot read hdfs://one:8020/a: not now at all"
    else:
        assert getattr(failed.value, "filename", "") == "hdfs://one:8020/a"


def test_a_certificate_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """A certificate file that was deleted after the client was created is named in the error of the next request."""
    variables = kubeconfig(tmp_path, "https://127.0.0.1:1")
    config = json.loads((tmp_path / "config").read_text())
    (tmp_path / "authority").write_text("-----BEGIN")
    config["clusters"][0]["cluster"]["certificate-authority"] = str(tmp_path / "authority")
    (tmp_path / "config").write_text(json.dumps(config))
    api = KubernetesApi(variables)
    assert api.server == "https://127.0.0.1:1"
    (tmp_path / "authority").unlink()
    with pytest.raises(TemporaryError, match=f"does not answer .*{tmp_path}/authority"):
        api.find_pod("n", "p")
