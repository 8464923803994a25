"""A real PostgreSQL server on a loopback port."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.processes import free_ports
from harness.waiting import wait_for

USER = "streamkeeper"


def find_programs() -> Path | None:
    """Return the folder of the server's programs (those on the PATH, else the newest version's), or None if they are
    not installed.
    """
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((each for each in folders if (each / "initdb").exists() and (each / "postgres").exists()), None)


@contextmanager
def postgres_server(home: Path, programs: Path) -> Iterator[str]:
    """Provide a new server in ``home``, which is removed at the end; yields
    ``postgresql://streamkeeper@127.0.0.1:<port>/postgres``.
    """
    data, port = home / "data", free_ports(1)[0]
    url = f"postgresql://{USER}@127.0.0.1:{port}/postgres"
    if os.geteuid() == 0:
        owner = _owner()
        os.chown(home, owner.pw_uid, owner.pw_gid)
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", USER, "--auth=trust", "--no-sync", "--encoding=UTF8"],
        stdout=subprocess.DEVNULL,
        timeout=120,
        check=True,
        **_as_owner(),
    )
    settings = ["fsync=off", "max_connections=40", "listen_addresses=127.0.0.1", f"unix_socket_directories={home}"]
    with open(home / "log", "wb") as log:
        # A child, where pg_ctl would leave a process in a session of its own: it ends with whoever starts it.
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-p", str(port), *(f"-c{setting}" for setting in settings)],
            stdout=log,
            stderr=log,
            **_as_owner(),
        )
    try:
        wait_for("PostgreSQL", lambda: _answers(server, url, home / "log"), 60)
        yield url
    finally:
        server.send_signal(signal.SIGQUIT)  # nothing of it is kept
        server.wait(30)
        shutil.rmtree(home, ignore_errors=True)


def new_database(server: str, name: str) -> str:
    """Create an empty database and return its URL; ``server`` is a URL as ``postgres_server`` yields it."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.replace("/postgres", f"/{name}")


def _answers(server: subprocess.Popen[bytes], url: str, log: Path) -> bool:
    import psycopg

    assert server.poll() is None, f"PostgreSQL ended: {log.read_text()[-2000:]}"
    with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=5):
        return True
    return False


def _owner() -> pwd.struct_passwd:
    """Return the user that runs the server if this process is root, because PostgreSQL refuses to run as root."""
    names = {each.pw_name for each in pwd.getpwall()}
    return pwd.getpwnam("postgres" if "postgres" in names else "nobody")


def _as_owner() -> dict[str, Any]:
    common: dict[str, Any] = {
        "cwd": "/",
        "stdin": subprocess.DEVNULL,
        "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"},
    }
    if os.geteuid() != 0:
        return common
    owner = _owner()
    return {**common, "user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
