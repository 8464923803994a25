"""Identifies this machine, and decides whether a recorded process can be inspected from here."""

from __future__ import annotations

import os
import socket
from enum import Enum
from functools import cache
from pathlib import Path

import msgspec

from streamkeeper.errors import RegistryDamaged, Unsupported

FIRST_PID_NAMESPACE = "4026531836"
"""The kernel's constant PROC_PID_INIT_INO: the pid namespace of a machine itself, not of a container on it."""


class Sight(Enum):
    """What this process can learn about a process recorded on some machine."""

    HERE = "here"
    """The process was recorded in this boot and pid namespace, for a user whose processes are readable: /proc is
    conclusive.
    """
    OVER = "over"
    """This very machine has rebooted since then: all earlier processes have terminated."""
    ELSEWHERE = "elsewhere"
    """Nothing can be learned about the process from here."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine on which a process runs: the scope in which its pid is valid.

    Two machines count as the same only if hardware id, host name and first pid namespace agree. Cloned machines that
    kept all three, against systemd's rules, must not share a store.
    """

    hardware: str
    """The content of /etc/machine-id, empty if unreadable."""
    boot: str
    """The kernel's boot id."""
    pid_namespace: str
    """The pid namespace."""
    user: int
    """The user whose processes can be read."""
    host: str
    """The host name."""

    @property
    def text(self) -> str:
        """This machine as text, in the form that ``ProcessRecord.machine`` stores."""
        return ":".join((self.hardware or "-", self.boot, self.pid_namespace, str(self.user)))

    def look_at(self, machine: str, host: str) -> tuple[Sight, str]:
        """Return what this process can learn about a recorded process, and the reason as a phrase.

        ``machine``, ``host``: the machine's text and its host name in the process's record.
        """
        hardware, boot, pid_namespace, user = _parts(machine)
        if boot == self.boot and pid_namespace == self.pid_namespace:
            if self.user in (0, int(user)):
                return Sight.HERE, f"on {host}"
            return Sight.ELSEWHERE, f"it runs as user {user} of {host}, whose processes user {self.user} cannot read"
        if boot == self.boot:
            return Sight.ELSEWHERE, f"it runs in another container ({host}) of the machine {self.host}"
        same = hardware == self.hardware != "" and host == self.host
        if same and pid_namespace == self.pid_namespace == FIRST_PID_NAMESPACE:
            return Sight.OVER, f"{host} has booted since"
        return Sight.ELSEWHERE, f"it runs on {host}, which cannot be inspected from {self.host}"

    def shares_disk(self, machine: str, host: str) -> bool:
        """Whether a recorded process used the same disk as this process; False if that cannot be determined.

        ``machine``, ``host``: the machine's text and its host name in the process's record. The hardware id is not
        compared, because containers of one image may have the same id on different disks.
        """
        _, boot, pid_namespace, _ = _parts(machine)
        return host == self.host or (boot, pid_namespace) == (self.boot, self.pid_namespace)


def _parts(machine: str) -> list[str]:
    parts = machine.split(":")
    if len(parts) != 4:
        raise RegistryDamaged(
            f"machine record {machine!r} has an unknown format",
            hint="use the version of Streamkeeper that wrote the record",
        )
    return parts


@cache
def this_machine() -> Machine:
    """Return this machine; raises Unsupported without Linux's /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]")
    except OSError as error:
        raise Unsupported(
            f"this machine has no readable /proc ({error.strerror})", hint="run local drivers on Linux"
        ) from error
    try:
        hardware = Path("/etc/machine-id").read_text().strip()
    except OSError:
        hardware = ""
    return Machine(hardware=hardware, boot=boot, pid_namespace=namespace, user=os.geteuid(), host=socket.gethostname())
