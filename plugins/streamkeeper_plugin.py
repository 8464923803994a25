"""What Airflow finds of Streamkeeper in this folder: this one file. The rest of the folder it must not walk.

Airflow puts the folder on the module path of every component, which is how DAGs and triggers find ``streamkeeper`` in
a checkout. An installed Streamkeeper names the same plugin by its entry point, and a second one of its name would be
an import error: then this file has none.
"""

from __future__ import annotations

from importlib.metadata import entry_points

if not entry_points(group="airflow.plugins", name="streamkeeper"):
    from streamkeeper.orchestration.plugin import StreamkeeperPlugin

    __all__ = ["StreamkeeperPlugin"]
