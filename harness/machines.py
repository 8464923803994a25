"""Machines made of namespaces: each has its own processes, network, host name, boot, and a directory that is its disk.

What is bound over in a machine's mount namespace ends with it; the bridge between them and this machine is removed at
the end. Needs root on Linux, with ``ip``, ``unshare`` and ``nsenter``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from harness.waiting import wait_for

_PROGRAMS = ("ip", "unshare", "nsenter")
_APART = ("unshare", "--pid", "--mount", "--uts", "--fork", "--mount-proc", "--kill-child")
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_INIT = """
set -e
hostname {name}
mount --bind {own}/boot_id {boot_id}
mount --bind {own}/machine-id /etc/machine-id
mount --bind {own}/hosts /etc/hosts
mount --bind {own}/disk {disk}
touch {own}/ready
while :; do sleep 3600 & wait; done
"""
"""Its first process, which also takes the end of those whose parents have ended."""


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """A bridge on this machine; ``prefix``: what the addresses on it begin with."""

    bridge: str
    prefix: str

    @property
    def address(self) -> str:
        """Where servers that all machines reach listen."""
        return f"{self.prefix}.1"


LOOPBACK = Network(bridge="", prefix="127.0.0")
"""This machine's own, for machines that have none of theirs."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """``pid``: of its first process, as seen from here; ``own``: what only it has, from outside."""

    name: str
    pid: int
    own: Path

    def words(self, command: Sequence[str]) -> list[str]:
        """The command that runs one in it."""
        return ["nsenter", f"--target={self.pid}", "--net", "--pid", "--mount", "--uts", *command]

    def run(self, command: Sequence[str], environ: Mapping[str, str], *, timeout_s: float = 300) -> tuple[int, str]:
        """Its exit code, and what it printed."""
        done = subprocess.run(
            self.words(command), env=dict(environ), capture_output=True, text=True, timeout=timeout_s, check=False
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def processes(self) -> list[psutil.Process]:
        """All that run in it but its first."""
        return _below(psutil.Process(self.pid))


def missing_for_machines() -> str:
    """Why there are no such machines here, as a clause; empty where there are."""
    if os.geteuid() != 0:
        return "machines of namespaces need root"
    if absent := [each for each in _PROGRAMS if shutil.which(each) is None]:
        return f"machines of namespaces need {', '.join(absent)}"
    tried = subprocess.run([*_APART, "--net", "true"], capture_output=True, text=True, check=False)
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


@contextmanager
def network() -> Iterator[Network]:
    """A new one, removed at the end."""
    number = os.getpid() % 250 + 1
    found = Network(bridge=f"skbr{os.getpid() % 100000}", prefix=f"10.213.{number}")
    _ip("link", "add", found.bridge, "type", "bridge")
    try:
        _ip("address", "add", f"{found.address}/24", "dev", found.bridge)
        _ip("link", "set", found.bridge, "up")
        yield found
    finally:
        _ip("link", "delete", found.bridge)


@contextmanager
def machine(name: str, joined: Network, number: int, root: Path, disk: Path) -> Iterator[Machine]:
    """A machine whose ``disk``, the same path in each, is a directory of its own below ``root``."""
    own = root / name
    (own / "disk").mkdir(parents=True)
    disk.mkdir(parents=True, exist_ok=True)
    (own / "boot_id").write_text(f"{uuid.uuid4()}\n")
    (own / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
    (own / "hosts").write_text(f"127.0.0.1 localhost\n{joined.prefix}.{number} {name}\n")
    apart_by = (*_APART, "--net") if joined.bridge else _APART
    script = _INIT.format(name=name, own=own, boot_id=_BOOT_ID, disk=disk)
    with open(own / "log", "wb") as log:
        words = [*apart_by, "/bin/sh", "-c", script]
        apart = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    everything: list[psutil.Process] = []
    try:
        wait_for(f"the machine {name}", lambda: _is_ready(apart, own), 30)
        (first,) = everything = psutil.Process(apart.pid).children()
        if joined.bridge:
            _join(joined, number, first.pid)
        yield Machine(name=name, pid=first.pid, own=own)
    finally:
        everything = [*everything, *(each for first in everything for each in _below(first))]
        # Without its first process the kernel ends all the others, drivers included; the network device goes, too.
        apart.send_signal(signal.SIGKILL)
        apart.wait(30)
        assert psutil.wait_procs(everything, timeout=30)[1] == [], f"processes of {name} are left"


def _is_ready(apart: subprocess.Popen[bytes], own: Path) -> bool:
    assert apart.poll() is None, f"{own.name} has not begun: {(own / 'log').read_text()}"
    return (own / "ready").exists()


def _join(joined: Network, number: int, pid: int) -> None:
    outside = f"sk{number}v{os.getpid() % 100000}"
    _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _ip("link", "set", outside, "master", joined.bridge, "up")
    for words in (
        ["address", "add", f"{joined.prefix}.{number}/24", "dev", "eth0"],
        ["link", "set", "eth0", "up"],
        ["link", "set", "lo", "up"],
    ):
        subprocess.run(["nsenter", f"--target={pid}", "--net", "ip", *words], check=True, timeout=30)


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=30, capture_output=True)
