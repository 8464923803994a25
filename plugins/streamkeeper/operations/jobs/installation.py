"""An installation: its settings, store, snapshots and runner, and the locations of its checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.model.names import check_version
from streamkeeper.model.records.checkpoint_version import checkpoint_location
from streamkeeper.model.records.installation_record import InstallationRecord
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.settings.settings import Settings, read_settings
from streamkeeper.registry.installations import claim_snapshots, open_installation, read_installation
from streamkeeper.registry.journal import Journal
from streamkeeper.registry.known_jobs import KnownJobs
from streamkeeper.runners.by_launch import runner_of_installation
from streamkeeper.runners.contract import Runner
from streamkeeper.stores.contract import Store
from streamkeeper.stores.store_urls import open_store
from streamkeeper.system.secret_resolvers import built_in_resolvers

Resolver = Callable[[str], str]


@dataclass(frozen=True)
class Installation:
    """One installation, as every operation uses it."""

    settings: Settings
    """The installation's settings."""
    store: Store
    """The store of the installation's records."""
    runner: Runner
    """The runner, which starts, observes and terminates the drivers."""
    resolvers: Mapping[str, Resolver] = field(default_factory=dict)
    """Scheme of a ``secret://`` reference -> function that returns the secret's value when a driver starts."""
    record: InstallationRecord | None = None
    """The installation's identity; None if it was not read."""

    @cached_property
    def snapshots(self) -> Store:
        """The store of the snapshots: claimed for this installation, or read-only if another installation owns it."""
        found = self.unclaimed_snapshots
        return found if found is self.store or self.record is None else claim_snapshots(found, self.record)

    @cached_property
    def known_jobs(self) -> KnownJobs:
        """The states of all jobs, cached for a process that reads them repeatedly."""
        return KnownJobs(self.store)

    @cached_property
    def unclaimed_snapshots(self) -> Store:
        """The store of the snapshots, for reading: it is not claimed, and any installation may own it."""
        url = self.settings.snapshots
        return self.store if not url or url == self.settings.store else open_store(url)

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str],
        *,
        resolvers: Mapping[str, Resolver] | None = None,
        resolve_master: Resolver | None = None,
        read_only: bool = False,
    ) -> Installation:
        """Return the installation that the ``STREAMKEEPER_*`` variables describe.

        ``resolvers``: resolvers in addition to the built-in ones; ``resolve_master``: returns the master of an Airflow
        connection id, called when a driver starts; ``read_only``: whether the installation is only read.

        Raises InvalidInput or Unsupported, and OperationRefused for a copied or moved installation unless
        ``read_only``.
        """
        settings = read_settings(environ)
        store = open_store(settings.store)
        record = read_installation(store) if read_only else open_installation(store, settings.home)
        every = {**built_in_resolvers(environ), **(resolvers or {})}
        return cls.of(settings, store, every, record, resolve_master=resolve_master)

    @classmethod
    def of(
        cls,
        settings: Settings,
        store: Store,
        resolvers: Mapping[str, Resolver],
        record: InstallationRecord | None = None,
        *,
        resolve_master: Resolver | None = None,
    ) -> Installation:
        """Return an installation with a runner for every kind of place.

        ``settings``, ``store``, ``resolvers`` and ``record``: as in the class; ``resolve_master``: as in
        ``from_environment``.
        """
        runner = runner_of_installation(store, settings, os.environ, installation=record, resolve_master=resolve_master)
        return cls(settings, store, runner, resolvers, record)

    @property
    def id(self) -> str:
        """The installation's id; empty if its record was not read."""
        return self.record.id if self.record is not None else ""

    def is_mine(self, recorded: str) -> bool:
        """Whether a record with this id belongs to this installation, and not to the installation that this one was
        copied from.
        """
        return self.record is None or self.record.is_mine(recorded)

    @property
    def checkpoints(self) -> Tree:
        """The root of new checkpoints. An older checkpoint stays below the root in which it was created."""
        return tree_at(self.settings.checkpoints)

    def checkpoint(self, state: JobState, query: str, version: str) -> Tree:
        """Return the directory of a checkpoint version, which need not exist; raises InvalidInput for a bad name."""
        return tree_at(state.checkpoint(query, check_version(version), self.settings.checkpoints))

    def new_checkpoints(self, job: str, query: str) -> Tree:
        """Return the directory of a query's new checkpoint versions."""
        return tree_at(checkpoint_location(self.settings.checkpoints, job, query))

    def journal(self, job: str, writer: str) -> Journal:
        """Return the job's journal; ``writer`` is recorded as the author of new entries."""
        return Journal(self.store, job, writer=writer)
