"""The plain side of a handover measurement on a cluster: how a driver is replaced there without Streamkeeper."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyspark
import yaml

from bench.sides import PlainSide, newest
from harness.bed import Bed
from harness.kubernetes_node import NAMESPACE
from harness.node_images import IMAGE
from harness.places import ROOT
from harness.remote_servers import PodServers
from harness.waiting import wait_for
from harness.yarn_server import YarnServer
from streamkeeper.runners.yarn_rest import ResourceManager
from streamkeeper.system.hadoop_conf import hadoop_user

_PLAIN = "BENCH_PLAIN_POD"


class YarnPlainSide(PlainSide):
    """The plain side on YARN: the application is killed, and the next one is submitted in cluster mode once nothing of
    the old one is left.

    ``yarn`` is the cluster.
    """

    def __init__(
        self, bed: Bed, job: str, params: Callable[[int], dict[str, Any]], checkpoint: str, yarn: YarnServer
    ) -> None:
        super().__init__(bed, job, params, checkpoint)
        self._yarn = yarn
        self._application = ""

    def replace(self) -> None:
        """Kill the application, wait until it has ended and submit the next one."""
        self.stop()
        self._release += 1
        before = newest(self.commits)
        tag = f"plain-{self._release}"
        run = subprocess.run(self._command(tag), env=self._environment, capture_output=True, text=True, check=False)
        if run.returncode:
            raise SystemExit(run.stdout + run.stderr)
        self._application = self._yarn.ask(f"apps?applicationTags={tag}")["apps"]["app"][0]["id"]
        wait_for("the plain driver's first commit", lambda: newest(self.commits) > before, timeout_s=300)

    def stop(self) -> None:
        """Kill the application as ``yarn application -kill`` does, and wait until all of its processes have ended."""
        if not self._application:
            return
        manager = ResourceManager(self._yarn.http, hadoop_user(os.environ))
        manager.withdraw(self._application)
        wait_for("the end of the plain driver", lambda: not self.processes(), timeout_s=120)
        self.ended_at = time.time()
        self._application = ""

    def processes(self) -> list[psutil.Process]:
        """Return the processes of its containers: those of the application master, which contains the driver, and of an
        executor.
        """
        found, mark = [], self._application.replace("application", "container")
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if mark and process.environ().get("CONTAINER_ID", "").startswith(mark):
                    found.append(process)
        return found

    def close(self) -> None:
        """Kill the application, whatever state it is in."""
        self.stop()

    @property
    def _environment(self) -> dict[str, str]:
        return {**self.bed.environment, "YARN_CONF_DIR": os.environ["HADOOP_CONF_DIR"]}

    def _command(self, tag: str) -> list[str]:
        spark = Path(pyspark.__file__).parent
        job, script = str(self.bed.jobs / f"{self._job}.py"), str(ROOT / "bench/plain_driver.py")
        conf = {
            "spark.yarn.jars": f"local:{spark}/jars/*",
            "spark.yarn.submit.waitAppCompletion": "false",
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.tags": tag,
            "spark.ui.enabled": "false",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "1",
        }
        for where in ("spark.yarn.appMasterEnv", "spark.executorEnv"):
            conf |= {
                f"{where}.PYSPARK_PYTHON": sys.executable,
                f"{where}.SPARK_HOME": str(spark),
                f"{where}.PYTHONPATH": self.bed.environment["PYTHONPATH"],
            }
        told = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        own = self.bed.root / "plain"
        params = json.dumps(self._params(self._release))
        submit = [str(spark / "bin/spark-submit"), "--master", "yarn", "--deploy-mode", "cluster", *told]
        return [*submit, script, job, self.checkpoint, params, str(own)]


class PodPlainSide(PlainSide):
    """The plain side on Kubernetes: the pod is deleted, and the next one is created once nothing of the old one is
    left.

    ``servers`` provides the node and the pod template.
    """

    def __init__(
        self, bed: Bed, job: str, params: Callable[[int], dict[str, Any]], checkpoint: str, servers: PodServers
    ) -> None:
        super().__init__(bed, job, params, checkpoint)
        self._servers = servers
        self._pod = ""

    def replace(self) -> None:
        """Delete the pod, wait until it has ended and create the next one."""
        self.stop()
        self._release += 1
        before = newest(self.commits)
        self._pod = f"plain-{self._release}"
        self._create()
        wait_for("the plain driver's first commit", lambda: newest(self.commits) > before, timeout_s=300)

    def stop(self) -> None:
        """Delete the pod with ``kubectl delete pod``, which waits until it has ended."""
        if self._pod:
            self._servers.node.kubectl("delete", "pod", self._pod, "-n", NAMESPACE)
            self.ended_at = time.time()
            self._pod = ""

    def processes(self) -> list[psutil.Process]:
        """Return the processes of its container."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if self._pod and process.environ().get(_PLAIN) == self._pod:
                    found.append(process)
        return found

    def close(self) -> None:
        """Delete the pod, whatever state it is in."""
        self.stop()

    def _create(self) -> None:
        pod = self._template({**self._variables, "SPARK_LOCAL_IP": "127.0.0.1"})
        pod["metadata"]["name"] = self._pod
        pod["spec"]["restartPolicy"] = "Never"
        pod["spec"]["containers"][0]["command"] = [sys.executable, *self._words()]
        file = self._servers.node.write_template(self.bed.root / "plain.yaml", pod)
        if not self._servers.node.kubectl("create", "-f", str(file)):
            raise SystemExit(f"{file} cannot be created")

    def _words(self) -> list[str]:
        job, script = str(self.bed.jobs / f"{self._job}.py"), str(ROOT / "bench/plain_driver.py")
        return [script, job, self.checkpoint, json.dumps(self._params(self._release)), "/tmp/plain"]

    @property
    def _variables(self) -> dict[str, str]:
        told = {name: self.bed.environment[name] for name in ("PYTHONPATH", "STREAMKEEPER_CHECKPOINTS")}
        told |= {name: os.environ[name] for name in ("JDK_JAVA_OPTIONS",) if name in os.environ}
        return {**told, "PYSPARK_PYTHON": sys.executable, _PLAIN: self._pod}

    def _template(self, variables: Mapping[str, str]) -> dict[str, Any]:
        pod = yaml.safe_load(self._servers.template.read_text())
        pod["spec"]["containers"][0]["env"] += [{"name": name, "value": value} for name, value in variables.items()]
        return dict(pod)


class SubmittedPodSide(PodPlainSide):
    """The plain side on Kubernetes with ``spark-submit --deploy-mode cluster``, which starts an executor pod of its
    own.
    """

    def _create(self) -> None:
        node, home = self._servers.node, self.bed.root
        node.apply(ROOT / "bench" / "kubernetes")
        entry = home / "entrypoint.sh"
        entry.write_text(_ENTRYPOINT)
        spark = Path(pyspark.__file__).parent
        jars = Path(sys.prefix).resolve() / "connectors" / "s3a" / "*"
        conf = {
            "spark.kubernetes.namespace": NAMESPACE,
            "spark.kubernetes.driver.pod.name": self._pod,
            "spark.kubernetes.container.image": IMAGE,
            "spark.kubernetes.container.image.pullPolicy": "Never",
            "spark.kubernetes.authenticate.submission.caCertFile": str(node.authority),
            "spark.kubernetes.authenticate.submission.oauthToken": node.token,
            "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
            "spark.kubernetes.driver.master": node.server,
            "spark.kubernetes.executor.useDriverPodIP": "true",
            "spark.kubernetes.submission.waitAppCompletion": "false",
            # Of pods on one machine's network two cannot have the same.
            "spark.blockManager.port": "0",
            "spark.driver.blockManager.port": "7079",
            "spark.driver.extraClassPath": str(jars),
            "spark.executor.extraClassPath": str(jars),
            "spark.ui.enabled": "false",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "1",
        }
        for who, variables in (("driver", "kubernetes.driverEnv"), ("executor", "executorEnv")):
            pod = self._template({"SPARK_HOME": str(spark)})
            (container,) = pod["spec"]["containers"]
            container["command"] = ["/bin/bash", str(entry)]
            file = node.write_template(home / f"{who}.yaml", pod)
            conf[f"spark.kubernetes.{who}.podTemplateFile"] = str(file)
            conf[f"spark.kubernetes.{who}.podTemplateContainerName"] = container["name"]
            conf[f"spark.kubernetes.{who}.request.cores"] = "0.1"
            conf |= {f"spark.{variables}.{name}": value for name, value in self._variables.items()}
        told = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        submit = [str(spark / "bin/spark-submit"), "--master", f"k8s://{node.server}", "--deploy-mode", "cluster"]
        script, *words = self._words()
        run = subprocess.run(
            [*submit, *told, f"local://{script}", *words],
            env=self.bed.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise SystemExit(run.stdout + run.stderr)


_ENTRYPOINT = """# What Spark's own image does with the words "driver" and "executor".
case "$1" in
  driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \\
      --deploy-mode client "$@" ;;
  executor)
    mapfile -t options < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n | sed 's/[^=]*=\\(.*\\)/\\1/')
    exec "$JAVA_HOME/bin/java" "${options[@]}" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \\
      -cp "$SPARK_CLASSPATH:$SPARK_HOME/jars/*" \\
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend --driver-url "$SPARK_DRIVER_URL" \\
      --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \\
      --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \\
      --podName "$SPARK_EXECUTOR_POD_NAME" ;;
esac
"""
