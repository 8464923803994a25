"""Writes .env from docker/env.example, each empty value filled in with a secret of its own; never over one there is.

Where the machine has no id of its own (macOS), one is written to build/machine-id: a driver is proven dead after a
reboot by it, so it is a file of this machine and no part of .env, which may be copied.
"""

import base64
import os
import re
import secrets
import sys
from pathlib import Path

EXAMPLE = Path(__file__).with_name("env.example")
TARGET = Path(__file__).resolve().parents[1] / ".env"
MACHINE_ID = Path("/etc/machine-id")


def new_secret(name: str) -> str:
    """64 letters and digits; Fernet's keys have a form of their own."""
    if name.endswith("_FERNET_KEY"):
        return base64.urlsafe_b64encode(os.urandom(32)).decode()
    return secrets.token_hex(32)


def fill_in(example: str) -> str:
    """The text with a value for every name that has none."""
    return re.sub(r"^(\w+)=$", lambda found: f"{found[1]}={new_secret(found[1])}", example, flags=re.MULTILINE)


def name_machine(folder: Path) -> str:
    """The line that names a file with this machine's id; empty where the machine has one."""
    if MACHINE_ID.is_file():
        return ""
    file = folder / "build" / "machine-id"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{secrets.token_hex(16)}\n")
    return "STREAMKEEPER_MACHINE_ID=./build/machine-id\n"


def main(target: Path) -> None:
    """Raises SystemExit where there is one: what it holds may be all that opens the databases."""
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SystemExit(f"{target} is there already: its secrets stay") from None
    with open(handle, "w") as file:
        file.write(fill_in(EXAMPLE.read_text()) + name_machine(target.parent))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
