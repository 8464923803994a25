"""A real Kubernetes cluster of one node, run from the programs that ``make kubernetes`` builds; needs root.

Etcd, API server, controllers, scheduler, kubelet and containerd run below one folder, on their own ports; pods have
addresses on a bridge that exists as long as the node. The pods' image contains only links: everything else is mounted
read-only from this machine, so that a driver finds this checkout and its environment at the same paths.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from harness.node_files import bridged, containerd_toml, kubelet_configuration
from harness.node_images import IMAGE, pack_images
from harness.processes import free_ports
from streamkeeper.errors import InvalidInput, NotFound, StillWaiting
from streamkeeper.system.java import find_java

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = Path(sys.prefix) / "kubernetes"
NAMESPACE = "streaming"
_NODE = "node"
_START_S = 90.0
_UNSEEN_S = 20
"""After this many seconds without a report of its kubelet, a node is not ready."""
_AWAY_S = 10
"""This many seconds after that, the node's pods are marked for deletion."""
_FILES = "/usr", "/etc/ssl", "/etc/alternatives"


def has_programs() -> bool:
    """Return whether ``make kubernetes`` has built the programs, and whether they can run here."""
    return (PROGRAMS / "kubelab").is_file() and os.geteuid() == 0 and shutil.which("containerd") is not None


class KubernetesNode:
    """A Kubernetes node. ``kubeconfig`` and ``token`` have an administrator's rights; ``operator`` is the kubeconfig
    file of the account that starts drivers.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.kubeconfig, self.operator = home / "admin.kubeconfig", home / "operator.kubeconfig"
        self._name = f"sk{secrets.token_hex(4)}"
        self._net = f"10.{100 + secrets.randbelow(100)}.{secrets.randbelow(250)}"
        self._api, self._etcd, self._peers, self._kubelet, self._health = free_ports(5)
        self.token = secrets.token_hex(16)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for folder in ("pki", "etcd", "containerd", "run", "kubelet", "cni", "manifests", "logs"):
            (home / folder).mkdir(parents=True)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that operations need, with the rights of deploy/kubernetes."""
        return {"KUBECONFIG": str(self.operator)}

    @property
    def server(self) -> str:
        """Return the URL of the API server."""
        return f"https://127.0.0.1:{self._api}"

    @property
    def authority(self) -> Path:
        """Return the certificate of the authority that has signed the API server's certificate."""
        return self.home / "pki" / "ca.crt"

    @property
    def address(self) -> str:
        """Return the node's own address, which its pods can reach."""
        return f"{self._net}.1"

    def start(self) -> None:
        """Start all programs, and return once the node accepts pods in the namespace. Raises InvalidInput or
        StillWaiting.
        """
        self._certify()
        self._configure()
        _run("ip", "link", "add", self._name, "type", "bridge")
        _run("ip", "address", "add", f"{self.address}/24", "dev", self._name)
        _run("ip", "link", "set", self._name, "up")
        for group in self._groups():
            group.mkdir()
        self._launch("containerd", "containerd", "-c", str(self.home / "containerd.toml"))
        self._launch_etcd()
        self._launch_api_server()
        self._wait("API server", lambda: bool(self.kubectl("get", "--raw", "/readyz")))
        self._launch_controllers()
        self._load_images()
        self.launch_kubelet()
        self.wait_ready()
        self.apply(ROOT / "deploy" / "kubernetes")
        # Its pods take their files from folders of this machine, which `restricted` forbids.
        self.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=privileged", "--overwrite")
        self._wait("service account", lambda: bool(self.kubectl("get", "serviceaccount", "default", "-n", NAMESPACE)))
        self._write_kubeconfig_of_the_operator()

    def stop(self) -> None:
        """Stop all pods and programs, and remove the mounts, the bridge and the control groups."""
        self.thaw_kubelet()
        for name in reversed([name for name in self._running if name != "containerd"]):
            self._end(name)
        self._end_containers()
        self._end("containerd")
        for mount in sorted((line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()), reverse=True):
            if mount.startswith(f"{self.home}/"):
                subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", self._name], check=False, capture_output=True)
        for group in self._groups():
            folders = sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True)
            for folder in (*folders, group):
                with suppress(OSError):
                    folder.rmdir()

    def kubectl(self, *words: str) -> str:
        """Run ``kubectl`` and return its output, or an empty text if it fails."""
        command = [str(PROGRAMS / "kubelab"), "kubectl", "--kubeconfig", str(self.kubeconfig), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout if done.returncode == 0 else ""

    def apply(self, folder: Path) -> None:
        """Apply a folder with ``kubectl apply -k``; raises InvalidInput if that fails."""
        if not self.kubectl("apply", "-k", str(folder)):
            raise InvalidInput(f"{folder} cannot be applied")

    def _write_kubeconfig_of_the_operator(self) -> None:
        token = self.kubectl("create", "token", "streamkeeper", "-n", NAMESPACE, "--duration", "24h")
        self.write_kubeconfig(self.operator, token.strip())

    def read(self, kind: str, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
        """Return an object of the API server, or an empty dict if it does not exist."""
        found = self.kubectl("get", kind, name, "-n", namespace, "-o", "json")
        return dict(json.loads(found)) if found else {}

    def freeze_kubelet(self) -> None:
        """Suspend the kubelet with SIGSTOP; the containers that it has started continue to run."""
        self._running["kubelet"].send_signal(signal.SIGSTOP)

    def thaw_kubelet(self) -> None:
        """Resume the kubelet with SIGCONT, if it was started."""
        if "kubelet" in self._running:
            self._running["kubelet"].send_signal(signal.SIGCONT)

    @property
    def kubelet(self) -> int:
        """Return the kubelet's pid."""
        return self._running["kubelet"].pid

    def shims(self) -> list[int]:
        """Return the pids of the processes that hold the pods' containers, including those of a containerd that was
        replaced.
        """
        socket = f"{self.home}/containerd.sock"
        return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal() and socket in _words(each)]

    def revive_kubelet(self) -> None:
        """Restart the kubelet if its process has exited."""
        if self._running["kubelet"].poll() is not None:
            self.launch_kubelet()

    def restart_kubelet(self) -> None:
        """Kill and restart the kubelet, which makes it register its node again."""
        self._running["kubelet"].kill()
        self._running["kubelet"].wait(10)
        self.launch_kubelet()

    def wait_ready(self) -> None:
        """Wait until the node is ready for pods; raises StillWaiting if that takes too long."""
        self._wait("node", lambda: " Ready" in self.kubectl("get", "nodes"))

    def lose_containers(self) -> None:
        """Kill kubelet and containerd, and start new ones that have no record of the running containers."""
        for name in ("kubelet", "containerd"):
            process = self._running.pop(name)
            process.kill()
            process.wait(10)
        moved = self.home / f"lost-{len(list(self.home.glob('lost-*')))}"
        for folder in ("containerd", "run"):
            (self.home / folder).rename(moved.with_name(f"{moved.name}-{folder}"))
            (self.home / folder).mkdir()
        self._launch("containerd", "containerd", "-c", str(self.home / "containerd.toml"))
        self._load_images()
        self.launch_kubelet()

    def template(self, *shared: Path, host_network: bool = False) -> dict[str, Any]:
        """Return the template of a driver's pod, which has this checkout mounted; ``shared`` are additional folders
        that the pod may write to.
        """
        java = Path(find_java(os.environ)).resolve().parents[1]
        own = {str(ROOT), str(Path(sys.prefix).resolve()), str(Path(sys.base_prefix).resolve()), str(java)}
        configured = [str(path) for path in Path("/etc").glob("java-*")]
        files = sorted({*_FILES, *configured, *(path for path in own if not path.startswith("/usr"))})
        mounts = [(path, True) for path in _outermost(files)] + [(str(path), False) for path in shared]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": NAMESPACE},
            "spec": {
                "hostNetwork": host_network,
                "tolerations": [
                    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
                    | {"tolerationSeconds": _AWAY_S}
                    for key in ("unreachable", "not-ready")
                ],
                "volumes": [{"name": f"m{n}", "hostPath": {"path": path}} for n, (path, _) in enumerate(mounts)],
                "containers": [
                    {
                        "name": "driver",
                        "image": IMAGE,
                        "imagePullPolicy": "Never",
                        "env": [
                            {"name": "PATH", "value": os.environ["PATH"]},
                            {"name": "JAVA_HOME", "value": str(java)},
                            {"name": "HOME", "value": "/tmp"},
                        ],
                        "resources": {"requests": {"cpu": "50m"}},
                        "volumeMounts": [
                            {"name": f"m{n}", "mountPath": path, "readOnly": read_only}
                            for n, (path, read_only) in enumerate(mounts)
                        ],
                    }
                ],
            },
        }

    def template_on_host(self, file: Path, *shared: Path) -> Path:
        """Write a template for pods on this machine's own network, where its servers listen, with this process's S3
        variables; return the file.
        """
        template = self.template(*shared, host_network=True)
        given = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        template["spec"]["containers"][0]["env"] += [{"name": name, "value": value} for name, value in given.items()]
        return self.write_template(file, template)

    def write_template(self, file: Path, pod: Mapping[str, Any]) -> Path:
        """Write a pod template to the file that STREAMKEEPER_POD_TEMPLATE is to name; return the file."""
        draft = file.with_name(f".{secrets.token_hex(4)}-{file.name}")
        draft.write_text(yaml.safe_dump(dict(pod)))
        return draft.replace(file)

    def launch_kubelet(self) -> None:
        """Start the kubelet; an earlier kubelet process must have exited."""
        self._component(
            "kubelet",
            *("--config", "kubelet.yaml", "--kubeconfig", str(self.kubeconfig), "--hostname-override", _NODE),
            *("--node-ip", self.address, "--root-dir", str(self.home / "kubelet")),
            *("--cert-dir", str(self.home / "pki" / "kubelet")),
        )

    def _launch_etcd(self) -> None:
        clients, peers = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peers}"
        self._component(
            "etcd",
            *("--data-dir", "etcd", "--unsafe-no-fsync", "--log-level", "warn"),
            *("--listen-client-urls", clients, "--advertise-client-urls", clients),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"default={peers}"),
        )

    def _launch_api_server(self) -> None:
        self._component(
            "apiserver",
            *("--etcd-servers", f"http://127.0.0.1:{self._etcd}", "--secure-port", str(self._api)),
            *("--bind-address", "127.0.0.1", "--advertise-address", self.address, "--cert-dir", "pki"),
            *("--tls-cert-file", "pki/api.crt", "--tls-private-key-file", "pki/api.key"),
            *("--client-ca-file", "pki/ca.crt", "--token-auth-file", "pki/tokens.csv"),
            *("--kubelet-client-certificate", "pki/api.crt", "--kubelet-client-key", "pki/api.key"),
            *("--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction"),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--service-account-key-file", "pki/sa.key", "--service-account-signing-key-file", "pki/sa.key"),
            *("--service-cluster-ip-range", "10.96.0.0/16", "--kubelet-preferred-address-types", "InternalIP"),
        )

    def _launch_controllers(self) -> None:
        client = ("--kubeconfig", str(self.kubeconfig), "--leader-elect=false", "--secure-port", "0")
        self._component(
            "controllers",
            *client,
            *("--service-account-private-key-file", "pki/sa.key", "--root-ca-file", "pki/ca.crt"),
            *("--use-service-account-credentials=false", "--node-monitor-period", "2s"),
            *("--node-monitor-grace-period", f"{_UNSEEN_S}s", "--terminated-pod-gc-threshold", "100"),
        )
        self._component("scheduler", *client)

    def _component(self, name: str, *words: str) -> None:
        self._launch(name, str(PROGRAMS / "kubelab"), name, *words)

    def _launch(self, name: str, *command: str) -> None:
        with open(self.home / "logs" / name, "ab") as log:
            self._running[name] = subprocess.Popen(
                command, cwd=self.home, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _end(self, name: str) -> None:
        if process := self._running.pop(name, None):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def _end_containers(self) -> None:
        """Kill all containers that still run, including those that the shims of a replaced containerd hold."""
        shims = self.shims()
        for shim in shims:
            for child in _children(shim):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        time.sleep(0.5)
        for shim in shims:
            with suppress(ProcessLookupError):
                os.kill(shim, signal.SIGKILL)

    def _wait(self, what: str, works: Any) -> None:
        deadline = time.monotonic() + _START_S
        while not works():
            ended = [name for name, process in self._running.items() if process.poll() is not None]
            if ended:
                raise InvalidInput(f"{ended[0]} has ended: {self._last_words(ended[0])}")
            if time.monotonic() > deadline:
                raise StillWaiting(f"the {what} of Kubernetes is not there: {self._last_words('kubelet')}")
            time.sleep(0.2)

    def _last_words(self, name: str) -> str:
        return (self.home / "logs" / name).read_text(errors="replace")[-2000:]

    def _groups(self) -> list[Path]:
        """Return the node's own control group; with cgroup v1, one for each controller."""
        root = Path("/sys/fs/cgroup")
        roots = [root] if (root / "cgroup.controllers").exists() else [path for path in root.iterdir() if path.is_dir()]
        return [path / self._name for path in roots if not path.is_symlink()]

    def _certify(self) -> None:
        """Create a certificate for the API server, a key for service accounts, and an administrator's token and
        kubeconfig.
        """
        pki = self.home / "pki"
        names = ",".join(f"IP:{each}" for each in ("127.0.0.1", self.address, "10.96.0.1"))
        (pki / "names").write_text(f"subjectAltName={names},DNS:kubernetes.default.svc")
        for command in (
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.crt",
            "genrsa -out sa.key 2048",
            "req -newkey rsa:2048 -nodes -subj /CN=kube-apiserver -keyout api.key -out api.csr",
            "x509 -req -in api.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out api.crt",
        ):
            subprocess.run(["openssl", *command.split()], cwd=pki, check=True, capture_output=True)
        (pki / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n")
        self.write_kubeconfig(self.kubeconfig, self.token)

    def write_kubeconfig(self, file: Path, token: str) -> None:
        """Write a kubeconfig file that authenticates with the token."""
        trusted = base64.b64encode(self.authority.read_bytes()).decode()
        server = {"server": self.server, "certificate-authority-data": trusted}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "one", "cluster": server}],
            "users": [{"name": "one", "user": {"token": token}}],
            "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
            "current-context": "one",
        }
        file.write_text(yaml.safe_dump(config))

    def _configure(self) -> None:
        socket = self.home / "containerd.sock"
        network = bridged(self._name, self._net, self.home / "addresses")
        (self.home / "cni" / "10.conflist").write_text(json.dumps(network))
        (self.home / "containerd.toml").write_text(containerd_toml(self.home, socket))
        kubelet = kubelet_configuration(
            self._name, self.address, (self._kubelet, self._health), socket, self.home / "pki" / "ca.crt"
        )
        (self.home / "kubelet.yaml").write_text(yaml.safe_dump(kubelet))

    def _load_images(self) -> None:
        self._wait("containerd", lambda: self._ctr("version"))
        with tempfile.TemporaryDirectory(dir=self.home) as folder:
            for archive in pack_images(Path(folder), PROGRAMS / "pause"):
                if not self._ctr("images", "import", str(archive)):
                    raise InvalidInput(f"{archive.stem} cannot be loaded")

    def _ctr(self, *words: str) -> bool:
        command = ["ctr", "-a", str(self.home / "containerd.sock"), "-n", "k8s.io", *words]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def lone_node() -> Iterator[KubernetesNode]:
    """Provide a node below a temporary folder, which is removed at the end."""
    home = Path(tempfile.mkdtemp(prefix="streamkeeper-kubernetes-"))
    try:
        with kubernetes_node(home / "node") as node:
            yield node
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def kubernetes_node(home: Path) -> Iterator[KubernetesNode]:
    """Provide a running node below ``home``; it is stopped and removed at the end. Raises NotFound if its programs are
    missing or without root.
    """
    if not has_programs():
        raise NotFound("Kubernetes' programs are not there, or this is not root", hint="make kubernetes")
    node = KubernetesNode(home)
    try:
        node.start()
        yield node
    finally:
        node.stop()
        shutil.rmtree(home, ignore_errors=True)


def _outermost(paths: Sequence[str]) -> list[str]:
    """Return the paths that do not lie below any of the other paths."""
    return [path for path in paths if not any(path.startswith(f"{other}/") for other in paths)]


def _words(folder: Path) -> list[str]:
    try:
        return (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InvalidInput(f"{' '.join(command)}: {done.stderr.strip()}")
