"""``metrics``: serve the metrics of all jobs for Prometheus, or print them once."""

from __future__ import annotations

from typing import Annotated

import typer

from streamkeeper.cli.common_options import load_read_only
from streamkeeper.cli.terminal import echo
from streamkeeper.system import clock


def metrics(
    *,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="ADDRESS:PORT",
            help="Address and port on which to serve the metrics, until Ctrl-C. No password protects them",
        ),
    ] = "127.0.0.1:9464",
    once: Annotated[
        bool, typer.Option("--once", help="Print the metrics once and exit, instead of serving them")
    ] = False,
) -> None:
    """Serve the metrics of all jobs for Prometheus."""
    from streamkeeper.operations.fleet.fleet_metrics import RecentFleet, look_at_fleet
    from streamkeeper.system.metrics import read_listen, render_metrics, serve_metrics

    installation = load_read_only(empty=True)
    look = RecentFleet(lambda: look_at_fleet(installation, clock.unix()))
    if once:
        echo(render_metrics(look()), nl=False)
        return
    wanted = read_listen(listen, where="--listen")
    port, thread = serve_metrics(wanted, look)
    echo(f"metrics at http://{wanted.address}:{port}/metrics", err=True)
    try:
        thread.join()
    except KeyboardInterrupt:
        return
