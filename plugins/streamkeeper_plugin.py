"""What Airflow discovers of Streamkeeper: this one file. It names the plugin; nothing of the package is loaded here.

Airflow puts this folder on the module path of every component, which is how DAGs and triggers find ``streamkeeper``.
"""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class StreamkeeperPlugin(AirflowPlugin):
    """Shows under Admin, Plugins that the installation has Streamkeeper."""

    name = "streamkeeper"
