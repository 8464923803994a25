"""A site: the store, the settings and the runner that the verbs work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from streamkeeper.model.installation import Installation
from streamkeeper.model.settings import Settings, read_settings
from streamkeeper.operations.secret_resolvers import built_in_resolvers
from streamkeeper.registry.installations import claim_snapshots, open_installation, read_installation
from streamkeeper.registry.journal import Journal
from streamkeeper.runners.contract import Runner
from streamkeeper.runners.local_process import LocalProcessRunner
from streamkeeper.stores.contract import Store
from streamkeeper.stores.opening import open_store

Resolver = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Site:
    """``resolvers``: scheme of a ``secret://`` reference -> what gives its value at launch.

    ``installation``: which one it is, None where nobody asked.
    """

    settings: Settings
    store: Store
    runner: Runner
    resolvers: Mapping[str, Resolver] = field(default_factory=dict)
    installation: Installation | None = None

    @property
    def snapshots(self) -> Store:
        """The store that holds the snapshots."""
        url = self.settings.snapshots
        if not url or url == self.settings.store:
            return self.store
        store = open_store(url)
        return store if self.installation is None else claim_snapshots(store, self.installation)

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str], *, resolvers: Mapping[str, Resolver] | None = None, looking: bool = False
    ) -> Site:
        """The site that the ``STREAMKEEPER_*`` variables describe; raises InvalidInput or Unsupported.

        Raises OperationRefused for a copied or moved one, unless it is for ``looking`` only.
        """
        settings = read_settings(environ)
        store = open_store(settings.store)
        installation = read_installation(store) if looking else open_installation(store, settings.home)
        runner = LocalProcessRunner(store, settings, installation=installation)
        known = {**built_in_resolvers(environ), **(resolvers or {})}
        return cls(settings, store, runner, known, installation)

    @property
    def id(self) -> str:
        """The installation's; empty where nobody asked."""
        return self.installation.id if self.installation is not None else ""

    def is_mine(self, recorded: str) -> bool:
        """Whether what was recorded under an installation's id is this one's, and not that of what it is a copy of."""
        return self.installation is None or self.installation.is_mine(recorded)

    def journal(self, job: str, writer: str) -> Journal:
        """A journal of the job, in which ``writer`` signs its entries."""
        return Journal(self.store, job, writer=writer)
