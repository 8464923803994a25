"""Starts the servers of a demo on S3 with a Spark cluster or on HDFS with YARN, all in one process, and provides their
addresses.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from harness.places import WAREHOUSE_VARIABLE
from harness.processes import StartedProcess, is_running
from harness.remote_servers import Whereabouts
from harness.system import System
from harness.waiting import wait_until
from streamkeeper.errors import InvalidInput, StillWaiting
from streamkeeper.model.settings.setting_variables import SECRET_PREFIX

_SERVERS = "servers"
_START_S = 180.0


def start_servers(system: System, kind: str) -> tuple[StartedProcess, Whereabouts]:
    """Start the servers of a kind from ``harness.remote_servers``, and set their addresses in the environment of the
    system.

    Raises InvalidInput if the servers exit, StillWaiting if they do not answer in time.
    """
    file = system.places.root / "servers.json"
    # Do not let the S3 settings of the user's shell leak in.
    for name in [name for name in system.environment if name.startswith("AWS_")]:
        del system.environment[name]
    started = system.start_process(_SERVERS, [sys.executable, "-m", "harness.remote_servers", kind, str(file)])
    if not wait_until(lambda: file.exists() or not is_running(started), timeout_s=_START_S):
        raise StillWaiting(f"the servers do not run after {_START_S:.0f} s", hint=f"see {started.log}")
    if not file.exists():
        last = Path(started.log).read_text(errors="replace").strip().splitlines()[-1:]
        raise InvalidInput(f"the servers ended: {''.join(last) or 'without a word'}", hint=f"see {started.log}")
    where = msgspec.json.decode(file.read_bytes(), type=Whereabouts)
    database = where.database.replace("postgresql://", "postgresql+psycopg://")
    system.environment.update(where.environment | {f"{SECRET_PREFIX}{WAREHOUSE_VARIABLE}": database})
    return started, where
