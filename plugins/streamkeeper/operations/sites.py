"""A site: the store, the settings and the runner that the verbs work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from streamkeeper.model.settings import Settings, read_settings
from streamkeeper.operations.secret_resolvers import built_in_resolvers
from streamkeeper.registry.journal import Journal
from streamkeeper.runners.contract import Runner
from streamkeeper.runners.local_process import LocalProcessRunner
from streamkeeper.stores.contract import Store
from streamkeeper.stores.opening import open_store

Resolver = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Site:
    """``resolvers``: scheme of a ``secret://`` reference -> what gives its value at launch."""

    settings: Settings
    store: Store
    runner: Runner
    resolvers: Mapping[str, Resolver] = field(default_factory=dict)

    @property
    def snapshots(self) -> Store:
        """The store that holds the snapshots."""
        url = self.settings.snapshots
        return open_store(url) if url and url != self.settings.store else self.store

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], *, resolvers: Mapping[str, Resolver] | None = None) -> Site:
        """The site that the ``STREAMKEEPER_*`` variables describe; raises InvalidInput or Unsupported."""
        settings = read_settings(environ)
        store = open_store(settings.store)
        runner = LocalProcessRunner(store, settings)
        return cls(settings, store, runner, {**built_in_resolvers(environ), **(resolvers or {})})

    def journal(self, job: str, writer: str) -> Journal:
        """A journal of the job, in which ``writer`` signs its entries."""
        return Journal(self.store, job, writer=writer)
