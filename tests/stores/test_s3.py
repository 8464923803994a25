"""Tests the S3 store on a real server: the store contract, lost answers and refused requests."""

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


def test_a_create_whose_answer_was_lost_succeeds(lossy_store: S3Store, proxy: FaultProxy) -> None:
    """A create whose answer was lost succeeds, because the retry finds the value of the first attempt."""
    proxy.lose = 1
    lossy_store.create("a/b", b"mine")
    assert proxy.made["lost"] == 1
    assert lossy_store.read("a/b") == b"mine"


def test_a_create_that_lost_raises_key_exists_even_after_a_retry(
    lossy_store: S3Store, store: S3Store, proxy: FaultProxy, s3_url: str
) -> None:
    """A create that loses against an existing key raises ``KeyExists`` even if its first answer was lost, because the
    key has different bytes.
    """
    store.create("a/b", b"theirs")
    proxy.lose = 1
    with pytest.raises(KeyExists):
        lossy_store.create("a/b", b"mine")
    assert proxy.made["lost"] == 1
    assert store.read("a/b") == b"theirs"


def test_journal_appends_once_although_answers_are_lost(
    lossy_store: S3Store, store: S3Store, proxy: FaultProxy
) -> None:
    """Ten journal appends, each with one lost answer, result in exactly ten entries."""
    journal = Journal(lossy_store, "sales", writer="test")
    for step in range(10):
        proxy.lose = 1
        journal.append(lambda state, step=step: StepDone(operation="o", step=str(step)))
    assert proxy.made["lost"] == 10
    steps = [entry.record.step for entry in Journal(store, "sales", writer="reader").entries()]
    assert steps == [str(step) for step in range(10)]


def test_a_server_that_is_down_raises_store_unavailable_in_one_line(
    monkeypatch: pytest.MonkeyPatch, s3_url: str
) -> None:
    """Without a server at the endpoint, ``StoreUnavailable`` names the store, the operation and a remedy in one
    line.
    """
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


def test_a_missing_bucket_raises_store_unavailable(s3_url: str) -> None:
    """A missing bucket raises ``StoreUnavailable``, and never looks like an empty store."""
    store = S3Store("s3://no-such-bucket/prefix")
    for call in (lambda: store.read("a"), lambda: list(store.list(""))):
        with pytest.raises(StoreUnavailable, match="NoSuchBucket"):
            call()


def test_refused_credentials_raise_store_unavailable_without_the_secret(
    monkeypatch: pytest.MonkeyPatch, s3_url: str
) -> None:
    """Refused credentials raise ``StoreUnavailable`` with the server's reason, and the secret is not shown."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    with pytest.raises(StoreUnavailable, match="SignatureDoesNotMatch") as caught:
        S3Store(s3_url).read("a")
    assert "not-the-secret" not in str(caught.value)


def test_a_wrong_clock_of_the_machine_is_reported_as_the_cause(monkeypatch: pytest.MonkeyPatch, s3_url: str) -> None:
    """A machine whose clock is an hour off gets an error of the store and of the checkpoint tree that asks to set its
    clock.
    """
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: datetime.now(UTC) - timedelta(hours=1))
    for read in (S3Store(s3_url).read, S3Tree(s3_url.replace("s3:", "s3a:")).read):
        with pytest.raises(StoreUnavailable, match="RequestTimeTooSkewed.*set this machine's clock"):
            read("a")


def test_missing_credentials_are_reported_with_the_variables_to_set(
    monkeypatch: pytest.MonkeyPatch, s3_url: str
) -> None:
    """Without credentials, the error names the environment variables to set."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with pytest.raises(StoreUnavailable, match="AWS_ACCESS_KEY_ID"):
        S3Store(s3_url).read("a")


@pytest.mark.parametrize("url", ["s3://", "s3:///prefix", "http://bucket/x", "s3://bucket/a//b", "s3://bucket/../x"])
def test_url_without_a_bucket_is_refused(url: str) -> None:
    """A URL without a bucket or with an invalid prefix is refused before any request is sent."""
    with pytest.raises(InvalidInput):
        S3Store(url)
