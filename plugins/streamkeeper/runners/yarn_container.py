"""A supervisor's YARN container: it reports to YARN and finds the container's directories."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread

from streamkeeper.errors import NotFound, StreamkeeperError
from streamkeeper.model.protocol.driver_messages import SECRETS, LaunchSpec
from streamkeeper.model.secret_references import find_references, resolve
from streamkeeper.model.settings.setting_variables import SECRET_PREFIX
from streamkeeper.runners.container import Container
from streamkeeper.system.java import find_java
from streamkeeper.system.secret_resolvers import built_in_resolvers

_SOURCE = Path(__file__).with_name("ApplicationMaster.java")
_CLASS = "streamkeeper.runners.ApplicationMaster"
_SMALL = ("-Xmx48m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


class YarnContainer(Container):
    """The first container of an application."""

    # A NodeManager ends its container's session, so a process that leaves the session survives.
    keeps_session = True

    def secrets(self, spec: LaunchSpec) -> dict[str, str]:
        """Implement ``Container.secrets``: resolve the secrets of this instance in the container, and remove all other
        secrets from the drivers' environment. Secrets are not submitted, because YARN would store their values.
        """
        secrets = resolve(find_references(spec.params, spec.conf), built_in_resolvers(dict(self._environ)))
        for variable in [name for name in self._environ if name.startswith(SECRET_PREFIX)]:
            del self._environ[variable]
        self._environ[SECRETS] = json.dumps(secrets)
        return secrets

    def log_path(self, log: Path) -> Path:
        """Implement ``Container.log_path``: the log that YARN shows, and that it collects once the container has
        ended.
        """
        del log
        return Path(self._environ["LOG_DIRS"].partition(",")[0], "driver.log")

    def why_gone(self) -> str:
        """Implement ``Container.why_gone``.

        When a NodeManager restarts, it removes the directories of containers that it does not recognise, but does not
        stop these containers.
        """
        if Path(self._environ["PWD"]).is_dir():
            return ""
        return "its container's directory was removed, because YARN's NodeManager has restarted"

    def reporting(self, log: Callable[[str], None]) -> AbstractContextManager[None]:
        """Implement ``Container.reporting``: the ResourceManager gives up an application that does not report to it."""
        return application_master(self._environ, log)


@contextmanager
def application_master(environ: Mapping[str, str], log: Callable[[str], None]) -> Iterator[None]:
    """Report to the ResourceManager that the application lives, while the body of the ``with`` statement runs.

    A separate process outside any driver's tree sends the reports, and always ends with this process. If the reporting
    process ends, for example because the ResourceManager has dropped the application, this process gets SIGTERM, and
    shuts its driver down cleanly if there is time. Raises StreamkeeperError if the reporting process cannot be started.
    """
    telling = subprocess.Popen(
        _command(environ),
        env={key: value for key, value in environ.items() if not key.startswith("STREAMKEEPER_")},
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    done = Event()

    def watch() -> None:
        code = telling.wait()
        if not done.is_set():
            log(f"YARN's ResourceManager has dropped this application, or its reports have stopped (code {code})")
            os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="application-master", daemon=True).start()
    try:
        yield
    finally:
        done.set()
        telling.kill()


def _command(environ: Mapping[str, str]) -> list[str]:
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise NotFound(
            "there is no pyspark in the node's environment", hint="install the drivers' environment on this node"
        )
    jars = Path(spark.origin).parent / "jars" / "*"
    conf = environ.get("HADOOP_CONF_DIR", "")
    if not conf:
        raise StreamkeeperError(
            "HADOOP_CONF_DIR is not set in the container", hint="add HADOOP_CONF_DIR to yarn.nodemanager.env-whitelist"
        )
    compiler = "org.codehaus.janino.SimpleCompiler"
    return [find_java(environ), *_SMALL, "-cp", f"{conf}:{jars}", compiler, str(_SOURCE), _CLASS]
