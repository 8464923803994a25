"""Tests what is still proven about a driver's pod while the API server of its cluster is unreachable."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import msgspec
import pytest

from streamkeeper.errors import NotFound
from streamkeeper.model.protocol.driver_messages import DriverExit, DriverState
from streamkeeper.model.runner_kinds.kubernetes_kind import POD_TEMPLATE, Pod
from streamkeeper.runners.contract import Life
from streamkeeper.runners.kubernetes_pod import KubernetesRunner
from tests.runners.cluster_server import kubeconfig
from tests.runners.launching import JOB, Place


class PodPlace(Place):
    """A place whose instance was launched in a pod of a cluster that is now unreachable."""

    def new_runner(self, **given: object) -> KubernetesRunner:  # type: ignore[override]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.server = f"http://127.0.0.1:{probe.getsockname()[1]}"
        environ = kubeconfig(self.folder, self.server)
        return KubernetesRunner(self.store, self.settings, environ, driver=(sys.executable,), **given)  # type: ignore[arg-type]


@pytest.fixture
def place(tmp_path: Path) -> PodPlace:
    made = PodPlace(tmp_path)
    control = made.control()
    control.write_launch(made.spec())
    control.write_place(Pod(instance="one", cluster=made.server, namespace="streaming", name="one"))
    return made


@pytest.mark.parametrize("signal", [9, 0])
def test_the_exit_record_of_the_supervisor_alone_proves_the_death(place: PodPlace, signal: int) -> None:
    """The supervisor's exit record alone proves the death; the API server would only add the reason for a signal."""
    ending = DriverExit(instance="one", state=DriverState.FAILED, code=137 if signal else 1, signal=signal)
    place.control().write_exit(ending)
    seen = place.runner.observe(JOB, "one")
    assert (seen.life, seen.fault) == (Life.DEAD, None)
    assert seen.why.startswith("the supervisor in ")
    assert seen.why.endswith("has recorded the end (failed) after every process of its tree had exited")


def test_a_pod_without_an_exit_record_is_unknown(place: PodPlace) -> None:
    """Negative control: without the exit record, the same pod is ``UNKNOWN``, and the reason names the server."""
    seen = place.runner.observe(JOB, "one")
    assert seen.life is Life.UNKNOWN
    assert "cannot be inspected" in seen.why
    assert place.server in seen.why


def test_a_launch_without_a_pod_template_is_refused_with_one_line(place: PodPlace) -> None:
    """A launch without a pod template setting is refused with one line that names ``STREAMKEEPER_POD_TEMPLATE``."""
    settings = {key: value for key, value in place.settings.runner_variables.items() if key != POD_TEMPLATE}
    place.settings = msgspec.structs.replace(place.settings, runner_variables=settings)
    with pytest.raises(NotFound, match="STREAMKEEPER_POD_TEMPLATE= cannot be read"):
        place.new_runner().launch(place.spec("two"), {})
