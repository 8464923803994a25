"""Runs a command with a shifted clock: ``shifted.py SECONDS WHAT COMMAND ARGUMENTS…``; WHAT as for ``unprotected``.

The clocks of the standard library and of pendulum are replaced before anything else is imported.
"""

from __future__ import annotations

import datetime
import sys
import time

import pendulum

_off_s = int(sys.argv[1])
_time, _now, _real_now = time.time, pendulum.now, datetime.datetime.now


def _shifted_now(_cls: type, tz: datetime.tzinfo | None = None) -> datetime.datetime:
    return _real_now(tz) + datetime.timedelta(seconds=_off_s)


vars(datetime)["datetime"] = type("Shifted", (datetime.datetime,), {"now": classmethod(_shifted_now)})
time.time = lambda: _time() + _off_s
pendulum.now = lambda tz=None: _now(tz).add(seconds=_off_s)


def main() -> None:
    """Run the command, with the protections in WHAT switched off."""
    off, *arguments = sys.argv[2:]
    if off:
        from chaos.unprotected import switch_off

        switch_off(off)
    from streamkeeper.cli.main import main as command

    sys.argv = ["streamkeeper", *arguments]
    command()


if __name__ == "__main__":
    main()
