"""A real PostgreSQL server on a loopback port."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.processes import free_ports

USER = "streamkeeper"


def find_programs() -> Path | None:
    """The folder of the server's programs, the newest version's; None where it is not installed."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((each for each in folders if (each / "initdb").exists() and (each / "pg_ctl").exists()), None)


@contextmanager
def postgres_server(home: Path, programs: Path) -> Iterator[str]:
    """``postgresql://streamkeeper@127.0.0.1:<port>/postgres``: a new one in ``home``, removed at the end."""
    data, port = home / "data", free_ports(1)[0]
    if os.geteuid() == 0:
        owner = _owner()
        os.chown(home, owner.pw_uid, owner.pw_gid)
    _run([programs / "initdb", "-D", data, "-U", USER, "--auth=trust", "--no-sync", "--encoding=UTF8"])
    options = f"-h 127.0.0.1 -p {port} -k {home} -c fsync=off -c max_connections=40"
    _run([programs / "pg_ctl", "-D", data, "-w", "-t", "60", "-l", home / "log", "-o", options, "start"])
    try:
        yield f"postgresql://{USER}@127.0.0.1:{port}/postgres"
    finally:
        _run([programs / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop"])
        shutil.rmtree(home, ignore_errors=True)


def _owner() -> pwd.struct_passwd:
    """PostgreSQL refuses to run as root."""
    names = {each.pw_name for each in pwd.getpwall()}
    return pwd.getpwnam("postgres" if "postgres" in names else "nobody")


def _run(command: Sequence[object]) -> None:
    as_owner: dict[str, Any] = {}
    if os.geteuid() == 0:
        owner = _owner()
        as_owner = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    done = subprocess.run(
        [str(each) for each in command],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=120,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        **as_owner,
    )
    assert done.returncode == 0, f"{command[0]}: {done.stderr.decode()}"
