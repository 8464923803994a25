"""The images of a Kubernetes node without a registry, in the format of ``docker save``."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

IMAGE = "streamkeeper/mounted:1"
"""The drivers' image, which contains only links: everything else is mounted from the machine."""
PAUSE = "streamkeeper/pause:1"
"""The image of the container that holds a pod's namespaces."""
_FOLDERS = ("usr", "etc/ssl", "etc/alternatives", "proc", "sys", "dev", "run", "tmp", "var/tmp", "root")
_LINKS = ("bin", "sbin", "lib", "lib64")


def pack_images(folder: Path, pause: Path) -> Iterator[Path]:
    """Yield an archive of each image; ``pause`` is the program of the image that holds a pod's namespaces."""
    held, mounted = folder / "held", folder / "mounted"
    held.mkdir()
    shutil.copy2(pause, held / "pause")
    yield _pack(PAUSE, held, ["/pause"], folder / "pause.tar")
    for each in _FOLDERS:
        (mounted / each).mkdir(parents=True)
    (mounted / "tmp").chmod(0o1777)
    for link in _LINKS:
        (mounted / link).symlink_to(f"usr/{link}")
    (mounted / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (mounted / "etc/group").write_text("root:x:0:\n")
    yield _pack(IMAGE, mounted, [], folder / "mounted.tar")


def _pack(name: str, root: Path, entry: Sequence[str], archive: Path) -> Path:
    """Write an image with one layer in the format of ``docker save``; return the archive."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(root, arcname=".")
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": list(entry), "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layers = [f"{digest}/layer.tar"]
    manifest = json.dumps([{"Config": config_name, "RepoTags": [f"docker.io/{name}"], "Layers": layers}]).encode()
    with tarfile.open(archive, "w") as tar:
        for path, data in ((config_name, config), ("manifest.json", manifest), (layers[0], layer.getvalue())):
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return archive
