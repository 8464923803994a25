"""The S3 store against a real server: the contract, lost answers, and what a server can refuse."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from harness.fault_proxy import FaultProxy, fault_proxy
from harness.s3_server import S3Server
from streamkeeper.checkpoints.s3_tree import S3Tree
from streamkeeper.errors import InvalidInput, KeyExists, StoreUnavailable
from streamkeeper.model.records.journal_records import StepDone
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.s3 import S3Store
from tests.contracts.store_contract import StoreContract

pytestmark = pytest.mark.s3


@pytest.fixture
def store(s3_url: str) -> S3Store:
    return S3Store(s3_url)


class TestS3Store(StoreContract):
    """A real S3 server keeps the contract through boto3."""


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def lossy_store(s3_url: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    return S3Store(s3_url)


def test_create_whose_answer_was_lost_is_known_as_won(lossy_store: S3Store, proxy: FaultProxy) -> None:
    """The client's second try finds its first try's value, and the writer is told that it won."""
    proxy.lose = 1
    lossy_store.create("a/b", b"mine")
    assert proxy.made["lost"] == 1
    assert lossy_store.read("a/b") == b"mine"


def test_create_that_lost_is_told_even_after_a_retry(
    lossy_store: S3Store, store: S3Store, proxy: FaultProxy, s3_url: str
) -> None:
    """A lost answer does not turn a loser into a winner: other bytes under the key are another's."""
    store.create("a/b", b"theirs")
    proxy.lose = 1
    with pytest.raises(KeyExists):
        lossy_store.create("a/b", b"mine")
    assert proxy.made["lost"] == 1
    assert store.read("a/b") == b"theirs"


def test_journal_appends_once_although_answers_are_lost(
    lossy_store: S3Store, store: S3Store, proxy: FaultProxy
) -> None:
    """Ten appends, the answer of each lost once, are ten entries."""
    journal = Journal(lossy_store, "sales", writer="test")
    for step in range(10):
        proxy.lose = 1
        journal.append(lambda state, step=step: StepDone(operation="o", step=str(step)))
    assert proxy.made["lost"] == 10
    steps = [entry.record.step for entry in Journal(store, "sales", writer="reader").entries()]
    assert steps == [str(step) for step in range(10)]


def test_server_that_is_down_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, s3_url: str) -> None:
    """No server at the endpoint: StoreUnavailable names the store, the operation and the way out, in one line."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(StoreUnavailable) as caught:
        S3Store(s3_url).read("a/b")
    text = str(caught.value)
    assert "\n" not in text
    assert s3_url in text
    assert "cannot read a/b" in text
    assert "AWS_ENDPOINT_URL" in text


def test_bucket_that_is_not_there_is_no_missing_key(s3_url: str) -> None:
    """A wrong bucket is an unavailable store, never one that looks empty."""
    store = S3Store("s3://no-such-bucket/prefix")
    for call in (lambda: store.read("a"), lambda: list(store.list(""))):
        with pytest.raises(StoreUnavailable, match="NoSuchBucket"):
            call()


def test_wrong_secret_is_told(monkeypatch: pytest.MonkeyPatch, s3_url: str) -> None:
    """Refused credentials name themselves and the variable to look at; the secret is not shown."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    with pytest.raises(StoreUnavailable, match="SignatureDoesNotMatch") as caught:
        S3Store(s3_url).read("a")
    assert "not-the-secret" not in str(caught.value)


def test_a_clock_that_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch, s3_url: str) -> None:
    """The server refuses a request from another hour; the line says whose clock to set, for both its readers."""
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: datetime.now(UTC) - timedelta(hours=1))
    for read in (S3Store(s3_url).read, S3Tree(s3_url.replace("s3:", "s3a:")).read):
        with pytest.raises(StoreUnavailable, match="RequestTimeTooSkewed.*set this machine's clock"):
            read("a")


def test_no_credentials_are_told(monkeypatch: pytest.MonkeyPatch, s3_url: str) -> None:
    """Without credentials the line says which variables to set."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with pytest.raises(StoreUnavailable, match="AWS_ACCESS_KEY_ID"):
        S3Store(s3_url).read("a")


@pytest.mark.parametrize("url", ["s3://", "s3:///prefix", "http://bucket/x", "s3://bucket/a//b", "s3://bucket/../x"])
def test_url_without_a_bucket_is_refused(url: str) -> None:
    """A URL that names no bucket, or a prefix that is no key, is told before anything is asked."""
    with pytest.raises(InvalidInput):
        S3Store(url)
