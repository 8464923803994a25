"""The only file in this folder that Airflow loads as a plugin; it must not walk the rest of the folder.

Airflow puts the folder on the module path of every component, so that DAGs and triggers find ``streamkeeper`` in a
checkout. An installed Streamkeeper registers the same plugin by its entry point. Then this file defines no plugin,
because a second plugin of the same name would be an import error.
"""

from __future__ import annotations

from importlib.metadata import entry_points

if not entry_points(group="airflow.plugins", name="streamkeeper"):
    from streamkeeper.orchestration.plugin import StreamkeeperPlugin

    __all__ = ["StreamkeeperPlugin"]
