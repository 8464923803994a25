"""A command that believes in another time: ``shifted.py SECONDS WHAT COMMAND ARGUMENTS…``; WHAT as for ``unprotected``.

The classes of the standard library and pendulum's are told before anything else is imported.
"""

from __future__ import annotations

import datetime
import sys
import time

import pendulum

_off_s = int(sys.argv[1])
_time, _now, _Real = time.time, pendulum.now, datetime.datetime


class Shifted(_Real):
    """A ``datetime`` of which now is another time."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        """What the wrong clock says."""
        return _Real.now(tz) + datetime.timedelta(seconds=_off_s)


datetime.datetime = Shifted  # type: ignore[misc]
time.time = lambda: _time() + _off_s
pendulum.now = lambda tz=None: _now(tz).add(seconds=_off_s)


def main() -> None:
    """Run the command."""
    off, *arguments = sys.argv[2:]
    if off:
        from bench.campaign.unprotected import switch_off

        switch_off(off)
    from streamkeeper.cli.main import main as command

    sys.argv = ["streamkeeper", *arguments]
    command()


if __name__ == "__main__":
    main()
