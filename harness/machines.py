"""Simulated machines made of namespaces: each has its own processes, network, host name and boot id, and a directory as
its disk.

The bind mounts of a machine disappear with its mount namespace; the bridge between the machines and this machine is
removed at the end. Needs root on Linux, with ``ip``, ``unshare`` and ``nsenter``.
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
"""The script of the machine's first process, which also reaps the processes whose parents have terminated."""


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """A bridge on this machine; ``prefix`` is the beginning of all addresses on it."""

    bridge: str
    prefix: str

    @property
    def address(self) -> str:
        """Return the address on which servers listen that all machines can reach."""
        return f"{self.prefix}.1"


LOOPBACK = Network(bridge="", prefix="127.0.0")
"""This machine's own loopback network, for machines without a network of their own."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A simulated machine. ``pid`` is its first process, as seen from this machine; ``own`` is the folder with its own
    files and its disk, as seen from this machine.
    """

    name: str
    pid: int
    own: Path

    def words(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command in the machine."""
        return ["nsenter", f"--target={self.pid}", "--net", "--pid", "--mount", "--uts", *command]

    def run(self, command: Sequence[str], environ: Mapping[str, str], *, timeout_s: float = 300) -> tuple[int, str]:
        """Run a command in the machine; return its exit code and its output."""
        done = subprocess.run(
            self.words(command), env=dict(environ), capture_output=True, text=True, timeout=timeout_s, check=False
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def processes(self) -> list[psutil.Process]:
        """Return all processes of the machine except its first one."""
        return _below(psutil.Process(self.pid))


def missing_for_machines() -> str:
    """Return why machines cannot be simulated here, or an empty text if they can."""
    if os.geteuid() != 0:
        return "machines of namespaces need root"
    if absent := [each for each in _PROGRAMS if shutil.which(each) is None]:
        return f"machines of namespaces need {', '.join(absent)}"
    tried = subprocess.run([*_APART, "--net", "true"], capture_output=True, text=True, check=False)
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


@contextmanager
def network() -> Iterator[Network]:
    """Provide a new bridge, which is removed at the end."""
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
    """Provide a running machine. Its ``disk`` has the same path in every machine, and is a different directory below
    ``root`` in each.
    """
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
