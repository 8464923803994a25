"""The parts of a case: a deployed job, a candidate, the rows they read, and what is known about the change. Pure."""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from conformance.matrix.data import PLAIN, Data

SCHEMA = "k string, k2 string, x int, y int, ts timestamp"
JOB_NAME = "matrix"
QUERY_NAME = "q"
STATE_STORE = "spark.sql.streaming.stateStore."
_PROVIDER = "org.apache.spark.sql.execution.streaming.state."

PROVIDERS: Mapping[str, Mapping[str, str]] = {
    "hdfs": {
        f"{STATE_STORE}providerClass": f"{_PROVIDER}HDFSBackedStateStoreProvider",
        f"{STATE_STORE}checkpointFormatVersion": "1",
    },
    "rocksdb": {
        f"{STATE_STORE}providerClass": f"{_PROVIDER}RocksDBStateStoreProvider",
        f"{STATE_STORE}rocksdb.changelogCheckpointing.enabled": "false",
        f"{STATE_STORE}checkpointFormatVersion": "1",
    },
    "v2": {
        f"{STATE_STORE}providerClass": f"{_PROVIDER}RocksDBStateStoreProvider",
        f"{STATE_STORE}rocksdb.changelogCheckpointing.enabled": "true",
        f"{STATE_STORE}checkpointFormatVersion": "2",
    },
    "-": {},
}
"""Name -> confs. v2: the confs that a driver of Streamkeeper sets by itself; "-": no state, no confs."""

BOTH = ("hdfs", "rocksdb")
ALL = ("hdfs", "rocksdb", "v2")
STATELESS = ("-",)


class Outcome(Enum):
    """What Spark does with a change."""

    REFUSED = "REFUSED"
    CORRECT = "ACCEPTED_CORRECT"
    IGNORED = "ACCEPTED_IGNORED"
    WRONG = "ACCEPTED_BUT_WRONG"
    LOSES = "ACCEPTED_LOSES"
    DUPLICATES = "ACCEPTED_DUPLICATES"
    NEVER_ENDS = "NEVER_ENDS"

    @property
    def safe(self) -> bool:
        """Whether the candidate can continue on the old checkpoint."""
        return self in (Outcome.CORRECT, Outcome.IGNORED)


@dataclass(frozen=True, slots=True)
class Job:
    """A job file: ``df`` is an expression over the stream ``s`` (and the second one, ``o``, with ``two``).

    ``top``: lines of the module; ``lines``: lines of the job's function before ``df``; ``options``: options of the
    reader; ``files``: further modules next to it; ``reader``: a reader used instead of files, with ``{source}`` in
    place of the param that names the source; ``params``: further params, each a text.
    """

    df: str
    mode: str = "update"
    schema: str = SCHEMA
    options: str = ""
    form: str = "json"
    path: str = 'params["input"]'
    limit: int = 1
    two: bool = False
    top: str = ""
    lines: str = ""
    sink: str = "ForeachBatch(write)"
    trigger: str = "availableNow"
    files: tuple[tuple[str, str], ...] = ()
    reader: str = ""
    params: tuple[str, ...] = ()

    def render(self) -> str:
        """Return the text of the job file."""
        other = "    o = " + self._stream('params["other"]') + "\n" if self.two else ""
        lines = textwrap.indent(textwrap.dedent(self.lines).strip("\n"), "    ")
        return _TEMPLATE.format(
            schema=self.schema,
            top=textwrap.dedent(self.top).strip("\n"),
            job=JOB_NAME,
            query=QUERY_NAME,
            stream=self._stream(self.path),
            other=other,
            lines=f"{lines}\n" if lines else "",
            df=self.df,
            sink=self.sink,
            mode=self.mode,
            params="".join(f'    "{name}": Param(str),\n' for name in self.params),
            trigger=self.trigger,
        )

    def _stream(self, path: str) -> str:
        if self.reader:
            return self.reader.replace("{source}", path)
        limit = f'.option("maxFilesPerTrigger", {self.limit})'
        return f"spark.readStream.schema(SCHEMA){limit}{self.options}.format({self.form!r}).load({path})"

    def but(self, **changes: object) -> Job:
        """Return the same job with some of its parts changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


_TEMPLATE = """\
from pyspark.sql import functions as F

from streamkeeper import FileSink, ForeachBatch, Param, Query, TableSink, streaming_job

SCHEMA = "{schema}"

{top}

def write(batch, context):
    batch.collect()


PARAMS = {{
    "input": Param(str),
    "other": Param(str),
    "output": Param(str),
    "number": Param(int, default=1),
{params}}}


@streaming_job(name="{job}", params=PARAMS)
def matrix(spark, params):
    s = {stream}
{other}{lines}    df = {df}
    yield Query("{query}", df, sink={sink}, output_mode="{mode}", trigger="{trigger}")
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A change and its purpose.

    ``cause``: the true reason in one word. ``opaque``: Python code in or below state, so that BACKUP is also accepted.
    ``truth``: an outcome and its reason, for cases that comparing rows cannot decide. ``declined``: Streamkeeper itself
    refuses the candidate, so that an error is also accepted. ``twin``: the case in which the same kind of change cannot
    continue because its rows differ: no plan can distinguish the two. ``masked``: prefix of columns with random values,
    which are not compared. Params and confs: those of both sides, and the candidate's own; ``{input}``, ``{other}``,
    ``{root}``, ``{output}`` in params stand for the unit's directories.
    """

    id: str
    change: str
    old: Job
    new: Job
    cause: str
    group: str = ""
    data: Data = PLAIN
    providers: tuple[str, ...] = BOTH
    opaque: bool = False
    truth: tuple[Outcome, str] | None = None
    twin: str = ""
    declined: bool = False
    damage: str = ""
    masked: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    candidate_conf: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str | int] = field(default_factory=dict)
    candidate_params: Mapping[str, str | int] = field(default_factory=dict)

    def deployed(self, provider: str) -> Unit:
        """Return the unit that ran before the change."""
        return Unit(self.old, self.data, {**PROVIDERS[provider], **self.conf}, dict(self.params))

    def candidate(self, provider: str) -> Unit:
        """Return the unit that is to continue; run by itself, it is the candidate from scratch."""
        conf = {**PROVIDERS[provider], **self.conf, **self.candidate_conf}
        return Unit(self.new, self.data, conf, {**self.params, **self.candidate_params})

    def key(self, provider: str) -> str:
        """Return a digest that changes with everything on which the outcome depends."""
        truth = [self.truth[0].value, self.truth[1]] if self.truth else []
        return digest([self.deployed(provider).key, self.candidate(provider).key, self.damage, truth])


@dataclass(frozen=True, slots=True)
class Unit:
    """A job with its rows, confs and params: everything on which a run from scratch depends."""

    job: Job
    data: Data
    conf: Mapping[str, str]
    params: Mapping[str, str | int]

    @property
    def key(self) -> str:
        """The name of the unit's directory."""
        parts = [self.job.render(), [list(each) for each in self.job.files], self.data.to_list()]
        return digest([*parts, sorted(self.conf.items()), sorted(self.params.items())])


def digest(parts: object) -> str:
    """Return twelve hexadecimal digits for a value."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def in_group(group: str, *cases: Case) -> tuple[Case, ...]:
    """Return the cases of one module, each with its group set."""
    return tuple(replace(each, group=group) for each in cases)
