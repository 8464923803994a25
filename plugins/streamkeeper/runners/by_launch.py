"""Uses the runner that an instance's launch names, even if the installation's settings now name another one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from streamkeeper.errors import StreamkeeperError, Unsupported
from streamkeeper.model.protocol.driver_messages import LOCAL, LaunchSpec
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.records.installation_record import InstallationRecord
from streamkeeper.model.runner_kinds.known_runners import RUNNERS
from streamkeeper.model.runner_kinds.runner_kind import RunnerKind
from streamkeeper.model.settings.settings import Settings
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.container import load
from streamkeeper.runners.contract import Runner
from streamkeeper.stores.contract import Store


class LaunchedRunner(Runner):
    """Passes each call to the runner that the instance's launch names.

    ``makers``: for each runner's name, the function that makes the runner, called when the runner is first needed.
    ``usual``: the name of the runner that starts new instances.
    """

    def __init__(self, store: Store, makers: Mapping[str, Callable[[], Runner]], usual: str) -> None:
        self._store = store
        self._makers = makers
        self._runners: dict[str, Runner] = {}
        self._usual = usual
        self._names: dict[tuple[str, str], str] = {}

    def check_place(self, references: Collection[str] = (), conf: Mapping[str, str] | None = None) -> None:
        """Implement ``Runner.check_place``; checks the place where new instances start."""
        self._runner(self._usual).check_place(references, conf)

    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        """Implement ``Runner.launch``; uses the runner of the instance's recorded launch, or without such a record the
        runner that ``spec`` names.
        """
        self._runner(self._name(spec.job, spec.instance) or spec.runner).launch(spec, secrets)

    def observe(self, job: str, instance: str) -> Liveness:
        """Implement ``Runner.observe``.

        A live process on this machine is found without the store. A termination that this machine proves counts,
        whichever runner the launch names.
        """
        seen = self._runner(LOCAL).observe(job, instance)
        if seen.life is Life.ALIVE:
            return seen
        name = self._name(job, instance) or LOCAL
        return seen if name == LOCAL else _better(seen, self._observe_by(name, [(job, instance)])[job, instance])

    def observe_many(self, instances: Collection[tuple[str, str]]) -> dict[tuple[str, str], Liveness]:
        """Implement ``Runner.observe_many``."""
        seen = self._runner(LOCAL).observe_many(instances)
        others: dict[str, list[tuple[str, str]]] = {}
        for pair in [pair for pair, liveness in seen.items() if liveness.life is not Life.ALIVE]:
            try:
                name = self._name(*pair) or LOCAL
            except StreamkeeperError as error:
                seen[pair] = Liveness(life=Life.UNKNOWN, why=f"the instance's launch cannot be read: {error}")
            else:
                others.setdefault(name, []).append(pair)
        others.pop(LOCAL, None)
        for name, pairs in others.items():
            seen |= {pair: _better(seen[pair], observed) for pair, observed in self._observe_by(name, pairs).items()}
        return seen

    def _observe_by(self, name: str, pairs: Collection[tuple[str, str]]) -> dict[tuple[str, str], Liveness]:
        if name in self._makers:
            return self._runner(name).observe_many(pairs)
        return dict.fromkeys(pairs, Liveness(life=Life.UNKNOWN, why=_not_known(name)))

    def notify(self, job: str, instance: str) -> None:
        """Implement ``Runner.notify``."""
        self._of(job, instance).notify(job, instance)

    def kill(self, job: str, instance: str) -> None:
        """Implement ``Runner.kill``."""
        self._of(job, instance).kill(job, instance)

    def release_resources(self, job: str, instance: str, *, with_log: bool = False) -> None:
        """Implement ``Runner.release_resources``."""
        self._of(job, instance).release_resources(job, instance, with_log=with_log)

    def where_log_is(self, job: str, instance: str) -> str:
        """Implement ``Runner.where_log_is``."""
        return self._of(job, instance).where_log_is(job, instance)

    def _of(self, job: str, instance: str) -> Runner:
        return self._runner(self._name(job, instance) or LOCAL)

    def _runner(self, name: str) -> Runner:
        if name not in self._makers:
            raise Unsupported(_not_known(name))
        if name not in self._runners:
            self._runners[name] = self._makers[name]()
        return self._runners[name]

    def _name(self, job: str, instance: str) -> str:
        """Return the runner's name; empty if the instance was not launched. The launch is read only once, because it
        never changes.
        """
        known = self._names.get((job, instance))
        if known is not None:
            return known
        spec = Control(self._store, job, instance).read_launch()
        if spec is None:
            return ""
        self._names[job, instance] = spec.runner
        return spec.runner


def runner_of_installation(
    store: Store,
    settings: Settings,
    environ: Mapping[str, str],
    *,
    installation: InstallationRecord | None = None,
    resolve_master: Callable[[str], str] | None = None,
) -> Runner:
    """Return the runner of an installation's drivers, whatever kinds of runners have started them.

    ``store``: the store.
    ``settings``: the installation's settings, which name the kind that starts new drivers.
    ``environ``: variables, some of which are passed on to drivers.
    ``installation``: the installation's record; None skips the ownership check.
    ``resolve_master``: resolves a master that is an Airflow connection.
    """

    def made(kind: RunnerKind) -> Runner:
        runner: Runner = load(kind.runner)(
            store, settings, environ=environ, installation=installation, resolve_master=resolve_master
        )
        return runner

    makers = {name: partial(made, kind) for name, kind in RUNNERS.items()}
    return LaunchedRunner(store, makers, settings.drivers)


def _better(here: Liveness, observed: Liveness) -> Liveness:
    return here if observed.life is Life.UNKNOWN and here.life is Life.DEAD else observed


def _not_known(name: str) -> str:
    return f"the instance's launch names the runner {name}, which this version of Streamkeeper does not have"
