"""Which machine this is, and whether a process recorded somewhere can be looked at from here."""

from __future__ import annotations

import os
import socket
from enum import Enum
from functools import cache
from pathlib import Path

import msgspec

from streamkeeper.errors import RegistryDamaged, Unsupported

FIRST_PID_NAMESPACE = "4026531836"
"""PROC_PID_INIT_INO of the kernel: the namespace of a machine itself, not of a container on it."""


class Sight(Enum):
    """What this process can know of a process recorded on some machine."""

    HERE = "here"
    """Same boot, same pid namespace, and a user whose processes can be read: /proc tells."""
    OVER = "over"
    """This very machine has booted since: everything from then is gone."""
    ELSEWHERE = "elsewhere"
    """Nothing can be known."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where pids mean something. ``hardware``: /etc/machine-id; ``user``: whose processes may be read.

    Two machines are taken for one only if hardware id, host name and first pid namespace agree: clones that kept all
    of them, against systemd's rule, must not share a store.
    """

    hardware: str
    boot: str
    pid_namespace: str
    user: int
    host: str

    @property
    def text(self) -> str:
        """As ``ProcessRecord.machine`` holds it."""
        return ":".join((self.hardware or "-", self.boot, self.pid_namespace, str(self.user)))

    def look_at(self, machine: str, host: str) -> tuple[Sight, str]:
        """What can be known here of a process recorded with these words, and why, as a clause."""
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
        """Whether what was recorded with these words saw the disk that this process sees, as far as can be told.

        Not by the hardware's id: containers of one image may have the same.
        """
        _, boot, pid_namespace, _ = _parts(machine)
        return host == self.host or (boot, pid_namespace) == (self.boot, self.pid_namespace)


def _parts(machine: str) -> list[str]:
    parts = machine.split(":")
    if len(parts) != 4:
        raise RegistryDamaged(f"{machine!r} is not a machine record", hint="it was written by another kind of runner")
    return parts


@cache
def this_machine() -> Machine:
    """Raises Unsupported where there is no Linux /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]")
    except OSError as error:
        raise Unsupported(
            f"this machine has no readable /proc ({error.strerror})", hint="local drivers need Linux"
        ) from error
    try:
        hardware = Path("/etc/machine-id").read_text().strip()
    except OSError:
        hardware = ""
    return Machine(hardware=hardware, boot=boot, pid_namespace=namespace, user=os.geteuid(), host=socket.gethostname())
