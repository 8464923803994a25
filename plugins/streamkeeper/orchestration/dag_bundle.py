"""The DAG bundle of an installed Streamkeeper, with the DAG files of the package."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle


class InstalledDags(LocalDagBundle):
    """A DAG bundle for ``dag_bundle_config_list`` with the DAGs of the installed package.

    The bundle needs no path, because it finds the installed package itself, even after an upgrade.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(path=next(iter(import_module("streamkeeper.dags").__path__)), **kwargs)
