"""Tests that ``LocalFiles`` writes the same files as Hadoop's local file system without starting processes."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from harness.places import ROOT
from streamkeeper.jvm.local_files import HADOOPS, KEY, write_without_processes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_batch_starts_no_process(tmp_path: Path) -> None:
    """A batch over ``LocalFiles`` starts no process. Negative control: the same batches over Hadoop's local files start
    more than 20 processes each.
    """
    command = [sys.executable, "-m", "bench.local_files", "--batches", "3", "--rounds", "1", "--out", str(tmp_path)]
    environ = os.environ | {"PYTHONPATH": f"{ROOT / 'plugins'}{os.pathsep}{ROOT}"}
    run = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    by_batch = json.loads((tmp_path / "local-files.json").read_text())["a_batch"]
    assert by_batch["ours"]["processes"] == 0
    assert by_batch["hadoops"]["processes"] > 20


class Folder:
    """A folder to which files are written as Spark writes checkpoints: through its file manager over Hadoop's
    ``FileContext``.
    """

    def __init__(self, spark: SparkSession, folder: Path, kind: str, umask: str) -> None:
        jvm: Any = spark._jvm
        folder.mkdir()
        self.folder = folder
        self.fs = jvm.org.apache.hadoop.fs
        configuration = jvm.org.apache.hadoop.conf.Configuration(configuration_of(spark))
        configuration.set(KEY, kind)
        configuration.set("fs.permissions.umask-mode", umask)
        managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing
        self.manager = managers.FileContextBasedCheckpointFileManager(self.path("."), configuration)
        self.context = self.fs.FileContext.getFileContext(jvm.java.net.URI("file:///"), configuration)
        assert self.context.getDefaultFileSystem().getClass().getName() == kind

    def path(self, name: str) -> Any:
        return self.fs.Path(f"file:{self.folder}", name)

    def write(self, name: str, text: bytes, *, over: bool) -> None:
        stream = self.manager.createAtomic(self.path(name), over)
        stream.write(bytearray(text))
        stream.close()

    def read(self, name: str) -> bytes:
        """Read the file and verify its checksums, which Hadoop does only when a buffer size is passed; Spark's manager
        passes none.
        """
        stream = self.context.open(self.path(name), 4096)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def permit(self, name: str, mode: int) -> None:
        self.context.setPermission(self.path(name), self.fs.permission.FsPermission(f"{mode:04o}"))

    def look(self, name: str) -> tuple[bool, bool, int]:
        found = self.context.getFileLinkStatus(self.path(name))
        return found.isSymlink(), found.isFile(), found.getLen()

    def left(self) -> dict[str, tuple[str, bytes]]:
        """Return mode and bytes by file name, including checksum files; the random name of a lost race's temporary file
        is replaced.
        """
        return {
            re.sub("[0-9a-f-]{36}", "(random)", str(file.relative_to(self.folder))): (
                stat.filemode(file.lstat().st_mode),
                file.read_bytes() if file.is_file() else b"",
            )
            for file in self.folder.rglob("*")
        }


def configuration_of(spark: SparkSession) -> Any:
    context: Any = spark.sparkContext
    return context._jsc.hadoopConfiguration()


def said(act: Callable[[], object]) -> object:
    """Return the result of a call, or the Java class of the exception that it raises."""
    try:
        return act()
    except Py4JJavaError as error:
        return str(error.java_exception.getClass().getName())


def played(folder: Folder) -> list[object]:
    """Perform the operations of Spark on a checkpoint, including files that were changed from outside, and return their
    results.
    """
    folder.manager.mkdirs(folder.path("state/0"))
    folder.write("state/0/1.delta", b"a" * 2000, over=False)
    folder.write("state/0/2.delta", b"", over=False)
    answers = [said(lambda: folder.write("state/0/1.delta", b"again", over=False))]
    folder.write("state/0/2.delta", b"over", over=True)
    folder.permit("state/0/1.delta", 0o640)
    folder.permit("state", 0o1777)
    folder.permit("state/0/2.delta", 0o000)
    (folder.folder / "link").symlink_to("state/0/1.delta")
    (folder.folder / "dangling").symlink_to("nowhere")
    (folder.folder / "a b é '\"$(x)").write_text("odd")
    for name in ("link", "dangling", "state", "state/0/1.delta", "missing", "a b é '\"$(x)"):
        answers.append(said(lambda name=name: folder.look(name)))
        # What has no mode to set is an IOException of chmod's exit code there, and of java.nio here.
        answers.append(said(lambda name=name: folder.permit(name, 0o600)) is None)
        answers.append(said(lambda name=name: folder.manager.exists(folder.path(name))))
    folder.permit("state", 0o755)
    folder.write("link", b"in the place of the link", over=True)
    folder.manager.delete(folder.path("state/0/2.delta"))
    (folder.folder / "state/0/.1.delta.crc").write_bytes(b"crc\0\0\0\2\0" + bytes(4 * 4))
    return [*answers, said(lambda: folder.read("link")), said(lambda: folder.read("state/0/1.delta"))]


@pytest.mark.parametrize("umask", ["022", "077", "000"])
def test_local_files_produce_the_same_files_as_hadoop(spark: SparkSession, tmp_path: Path, umask: str) -> None:
    """``LocalFiles`` and Hadoop's local files produce the same names, bytes, checksums and modes under any umask, the
    same results for links and the same refusals, and both reject a broken checksum.
    """
    ours, hadoops = (
        Folder(spark, tmp_path / name, kind, umask)
        for name, kind in (("ours", configuration_of(spark).get(KEY)), ("hadoops", HADOOPS))
    )
    answers = played(ours)
    assert answers == played(hadoops)
    assert answers[-1] == "org.apache.hadoop.fs.ChecksumException"
    assert ours.left() == hadoops.left()


def test_a_configured_file_system_class_is_not_replaced(spark: SparkSession) -> None:
    """A file system class that is already set in the installation's Hadoop configuration is not replaced."""
    configuration = configuration_of(spark)
    ours = configuration.get(KEY)
    configuration.set(KEY, "org.example.Files")
    try:
        write_without_processes(spark)
        assert configuration.get(KEY) == "org.example.Files"
    finally:
        configuration.set(KEY, ours)
