"""A real HDFS on loopback ports (a NameNode and a DataNode), run from the jars that ``make connectors`` fetches."""

from __future__ import annotations

import getpass
import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.hadoop_process import HadoopProcesses, has_jars, started
from harness.processes import free_ports
from streamkeeper.errors import NotFound

_NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"


class HdfsServer(HadoopProcesses):
    """An HDFS at ``url``. The user who starts it is its superuser; other users have only the rights that they are
    granted.

    ``http``: the address of its WebHDFS, ``http://host:port``.
    """

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        rpc, web, *of_datanode = free_ports(5)
        self.url, self.http = f"hdfs://127.0.0.1:{rpc}", f"http://127.0.0.1:{web}"
        # A job's plain paths are local ones all the same.
        self.write("core-site.xml", {"fs.defaultFS": self.url, "hadoop.tmp.dir": str(home / "tmp")})
        settings = {
            "dfs.namenode.name.dir": f"file://{home}/names",
            "dfs.namenode.rpc-address": self.url.removeprefix("hdfs://"),
            "dfs.namenode.http-address": self.http.removeprefix("http://"),
            "dfs.namenode.safemode.extension": "0",
            # Nothing of it is kept: a power cut may take it.
            "dfs.namenode.edits.noeditlogchannelflush": "true",
            # A file's end is asked for before its DataNode has told of it: then it is waited for, by default 0.4 s.
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5",
            "dfs.datanode.data.dir": f"file://{home}/blocks",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.replication": "1",
        }
        names = ("dfs.datanode.address", "dfs.datanode.http.address", "dfs.datanode.ipc.address")
        settings |= {name: f"127.0.0.1:{port}" for name, port in zip(names, of_datanode, strict=True)}
        self.write("hdfs-site.xml", settings)

    def start(self) -> None:
        """Create the file system if it does not exist, start both servers, and return once a file can be written.

        Raises InvalidInput if a server exits, StillWaiting if it takes too long.
        """
        if not (self.home / "names" / "current").exists():
            self.run(_NAMENODE, "-format", "-nonInteractive", "-force")
        for program in (_NAMENODE, _DATANODE):
            self.launch(program)
        self.wait("HDFS does not take files", self._takes_files)

    def set_safe_mode(self, wanted: str) -> None:
        """Switch the safe mode; ``wanted`` is ``enter`` or ``leave``."""
        self.run(_ADMIN, "-safemode", wanted)

    def give(self, url: str, user: str) -> None:
        """Create a directory and make ``user`` its owner, who may write nowhere else."""
        path = url.removeprefix(self.url)
        for wanted in ("MKDIRS", f"SETOWNER&owner={user}"):
            asked = f"{self.http}/webhdfs/v1{path}?op={wanted}&user.name={getpass.getuser()}"
            urllib.request.urlopen(urllib.request.Request(asked, method="PUT"), timeout=10).close()

    def owners(self, url: str) -> Counter[str]:
        """Return how many files below a directory each user owns."""
        path, found = url.removeprefix(self.url), Counter[str]()
        asked = f"{self.http}/webhdfs/v1{path}?op=LISTSTATUS&user.name={getpass.getuser()}"
        with urllib.request.urlopen(asked, timeout=10) as answer:
            entries = json.load(answer)["FileStatuses"]["FileStatus"]
        for entry in entries:
            if entry["type"] == "DIRECTORY":
                found += self.owners(f"{url}/{entry['pathSuffix']}")
            else:
                found[entry["owner"]] += 1
        return found

    def _takes_files(self) -> bool:
        """Return whether a file can be written; a DataNode is registered before it has reported its disk, so its
        registration is not enough.
        """
        asked = f"{self.http}/webhdfs/v1/ready?op=CREATE&noredirect=true&overwrite=true&user.name={getpass.getuser()}"
        try:
            with urllib.request.urlopen(urllib.request.Request(asked, method="PUT"), timeout=5) as answer:
                where = json.loads(answer.read())["Location"]
            urllib.request.urlopen(urllib.request.Request(where, b"yes", method="PUT"), timeout=5).close()
        except OSError:
            return False
        return True


@contextmanager
def hdfs_server(home: Path) -> Iterator[HdfsServer]:
    """Provide a running HDFS with an empty file system in ``home``; it is stopped and removed at the end."""
    if not has_jars():
        raise NotFound("HDFS's jars are not there", hint="make connectors")
    with started(HdfsServer(home)) as server:
        yield server
