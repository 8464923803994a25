"""Makes the bucket of the checkpoints where it is missing, and returns once it takes writes."""

import sys
import time
from collections.abc import Callable

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

_READY_S = 120.0
_THERE = ("BucketAlreadyOwnedByYou", "BucketAlreadyExists")


def make_bucket(name: str) -> None:
    """Raises the server's last error when it still refuses after two minutes."""
    client = boto3.client("s3", config=Config(retries={"max_attempts": 1}, connect_timeout=5))

    def create() -> None:
        try:
            client.create_bucket(Bucket=name)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _THERE:
                raise

    _persist(create)
    # The server opens its gate before it has a first volume to write to.
    _persist(lambda: client.put_object(Bucket=name, Key=".ready", Body=b"yes"))
    client.delete_object(Bucket=name, Key=".ready")


def _persist(ask: Callable[[], object]) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            ask()
            return
        except (BotoCoreError, ClientError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


if __name__ == "__main__":
    make_bucket(sys.argv[1])
