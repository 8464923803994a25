"""The Spark confs that only the installation decides, and the check that no release sets them in conf or code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from streamkeeper.errors import InvalidInput, JobUnusable
from streamkeeper.model.names import shorten
from streamkeeper.model.settings.row_risks import is_about_rows, risk_of_conf
from streamkeeper.model.settings.spark_confs import meant_key

_ELSEWHERE = "executors would run where the end of the driver's processes cannot be proven"
_STATE_FORMAT = "every checkpoint version is written in the state format that its record names"
_FILES = "the installation decides how a checkpoint's files are written"
_COMMITS = "the installation decides how the commits of a Delta table are created"
_PYTHON = "Python workers run the interpreter that the release was made with"
_NO_LOGIN = "Spark's UI has no login: it shows settings, plans and thread dumps, and can kill jobs"

_REFUSED = {
    "spark.sql.streaming.checkpointLocation": "Streamkeeper sets each query's checkpoint at launch",
    "spark.submit.deployMode": "the runner decides where a driver runs",
    "spark.remote": "Spark Connect has no driver of its own that could be drained or proven terminated",
    "spark.sql.streaming.checkpointFileManagerClass": _FILES,
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": _FILES,
    "spark.hadoop.fs.defaultFS": _FILES,
    "spark.hadoop.fs.default.name": _FILES,
    "spark.hadoop.fs.file.impl": _FILES,
    "spark.hadoop.fs.AbstractFileSystem.file.impl": _FILES,
    "spark.delta.logStore.class": _COMMITS,
    "spark.delta.logStore.file.impl": _COMMITS,
    "spark.delta.logStore.hdfs.impl": _COMMITS,
    "spark.delta.logStore.s3a.impl": _COMMITS,
    "spark.sql.execution.pyspark.python": _PYTHON,
    "spark.sql.streaming.join.stateFormatV4.enabled": _STATE_FORMAT,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": _STATE_FORMAT,
    "spark.sql.streaming.stateStore.encodingFormat": _STATE_FORMAT,
    "spark.sql.streaming.stateStore.providerClass": _STATE_FORMAT,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": _STATE_FORMAT,
    "spark.sql.streaming.stateStore.rocksdb.formatVersion": _STATE_FORMAT,
    "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion": _STATE_FORMAT,
    "spark.sql.streaming.stateStore.rowChecksum.enabled": _STATE_FORMAT,
    "spark.sql.streaming.transformWithState.stateSchemaVersion": _STATE_FORMAT,
}
_REFUSED_SINCE = frozenset({"spark.ui.enabled", "spark.sql.execution.pyspark.python"})
_REASONS = {key.lower(): reason for key, reason in _REFUSED.items()}
_STATE_FORMAT_VERSION = re.compile(r"spark\.sql\.streaming\.\w+\.stateformatversion")
MASTER = "spark.master"
UI = "spark.ui.enabled"
_CORES = "spark.driver.cores"
OWN_THREADS = "local[2]"
"""The default master if a release does not set the number of threads."""
_IN_THE_DRIVER = re.compile(r"local(\[(\d+|\*)(, *\d+)?\])?")

_USUAL = (
    "spark.cleaner.periodicGC.interval",
    "spark.cores.max",
    "spark.default.parallelism",
    "spark.driver.cores",
    "spark.driver.maxResultSize",
    "spark.driver.memory",
    "spark.driver.memoryOverhead",
    "spark.driver.memoryOverheadFactor",
    "spark.executor.cores",
    "spark.executor.memory",
    "spark.executor.pyspark.memory",
    "spark.locality.wait",
    "spark.master",
    "spark.memory.fraction",
    "spark.memory.offHeap.enabled",
    "spark.memory.offHeap.size",
    "spark.memory.storageFraction",
    "spark.network.timeout",
    "spark.scheduler.mode",
    "spark.speculation",
    "spark.task.maxFailures",
    UI,
)
_COUNT, _SIZE, _FLAG = "a whole number above zero", "a size, as 512m or 2g", "true or false"
_VALUES = {
    _COUNT: re.compile(r"0*[1-9]\d{0,8}"),
    _SIZE: re.compile(r"\d+ *([kmgtp]?b?)", re.IGNORECASE),
    _FLAG: re.compile("true|false", re.IGNORECASE),
}
_KINDS = {
    "spark.cores.max": _COUNT,
    "spark.default.parallelism": _COUNT,
    "spark.driver.cores": _COUNT,
    "spark.driver.maxResultSize": _SIZE,
    "spark.driver.memory": _SIZE,
    "spark.driver.memoryOverhead": _SIZE,
    "spark.executor.cores": _COUNT,
    "spark.executor.memory": _SIZE,
    "spark.executor.pyspark.memory": _SIZE,
    "spark.memory.offHeap.enabled": _FLAG,
    "spark.memory.offHeap.size": _SIZE,
    "spark.speculation": _FLAG,
    "spark.sql.shuffle.partitions": _COUNT,
    "spark.task.maxFailures": _COUNT,
    UI: _FLAG,
}
"""The confs that people often type into a form, whose values are checked before a driver is started."""
_SQL = "spark.sql."
_NAMES_CODE = frozenset(
    {"artifact", "catalog", "catalogs", "class", "classes", "committer", "extensions", "factory", "hive", "jars"}
    | {"listener", "listeners", "maven", "plugin", "plugins", "provider", "providers", "redaction", "serializer"}
    | {"warehouse"}
)
"""Words in the names of SQL confs that choose code to load, the source of such code, or text to omit from logs."""
_NAMES_A_FORMAT = "spark.sql.sources.default"
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

FIXED = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
"""The state format of every new checkpoint version: the confs behind ``model.manifests.release.STATE_FORMAT``."""
_ABSENT = "spark.sql.streaming.checkpointFileManagerClass"
_JAVA_OPTIONS = frozenset({"spark.driver.extrajavaoptions", "spark.driver.defaultjavaoptions"})


def own_threads(conf: Mapping[str, str]) -> str:
    """Return the master for a driver that runs its tasks in its own threads.

    Such a driver runs as many tasks at once as it has cores: two, unless the release sets ``spark.driver.cores``.
    """
    asked = conf.get(_CORES, "").strip()
    return f"local[{int(asked)}]" if asked.isdecimal() and int(asked) else OWN_THREADS


def check_release_conf(conf: Mapping[str, str], allowed: Iterable[str] = ()) -> None:
    """Raise InvalidInput for an invalid Spark conf, and for a conf that a release may not set.

    The person who triggers a deploy chooses the conf, and need not have the right to write code. A conf that names
    code, a path or a command is therefore only accepted if the installation has ``allowed`` it, by full name or by a
    pattern such as ``spark.hadoop.fs.*``.
    """
    known = tuple(allowed)
    for key, value in conf.items():
        if not isinstance(value, str):
            raise InvalidInput(f"conf {key}: {value!r} is not text", hint='write each value as text, such as "200"')
        if not key.startswith("spark."):
            raise InvalidInput(f"conf {key} is not a Spark conf", hint="give only names that start with spark.")
        if key.lower() == MASTER and not _IN_THE_DRIVER.fullmatch(value):
            hint = "leave it out, or write local[N] for N cores"
            raise InvalidInput(f"conf {key}={value} cannot be set: {_ELSEWHERE}", hint=hint)
        if key.lower() == UI.lower() and value.strip().lower() != "false":
            raise InvalidInput(f"conf {key}={shorten(value)} cannot be set: {_NO_LOGIN}", hint="leave it out")
        if key.lower() in _JAVA_OPTIONS and "-Dspark." in value:
            raise InvalidInput(
                f"conf {key} sets Spark confs with -D options", hint="give each of these confs separately"
            )
        if reason := _reason_against(key.lower()):
            raise InvalidInput(f"conf {key} cannot be set: {reason}", hint="leave it out")
        if not (_is_usual(key) or _is_listed(key, known)):
            hint = "leave it out, or ask the operators of this installation to add it to STREAMKEEPER_CONFS"
            raise InvalidInput(f"a deploy may not set conf {key} in this installation", hint=hint)
        if (meant := meant_key(key)) and not _is_listed(key, known):
            hint = f"write {meant}, if you mean that conf: Spark ignores unknown names"
            raise InvalidInput(f"Spark has no conf {key}", hint=hint)
        if "${" in value and key not in known:
            hint = "write the value itself, or a reference such as secret://env/NAME"
            raise InvalidInput(f"conf {key} contains a variable (${{…}}), but a release needs a fixed value", hint=hint)
        if wanted := _misfit(key, value):
            raise InvalidInput(
                f"conf {key}={shorten(value)} is not {wanted}: Spark would not start", hint=f"give {wanted}"
            )
        if key not in known and (risk := _risk(key, value)):
            hint = "leave it out, or ask the operators of this installation to add its full name to STREAMKEEPER_CONFS"
            raise InvalidInput(f"conf {key}={shorten(value)} puts rows at risk: {risk}", hint=hint)


def without_later_refusals(conf: Mapping[str, str]) -> dict[str, str]:
    """Return a stored release's confs without those that Streamkeeper accepted in earlier versions, but now refuses.

    A release with such confs must still be startable, for recoveries and rollbacks. If its confs enable Spark's UI, the
    driver keeps the UI disabled.
    """
    return {key: value for key, value in conf.items() if key.lower() not in _REFUSED_SINCE}


def _misfit(key: str, value: str) -> str:
    """Return the kind of value that Spark accepts for ``key`` if ``value`` is clearly of another kind; empty
    otherwise.
    """
    kind = _KINDS.get(key, _FLAG if key.startswith(_SQL) and key.endswith(".enabled") else "")
    if not kind or value.startswith("secret://") or _VALUES[kind].fullmatch(value.strip()):
        return ""
    return kind


def _risk(key: str, value: str) -> str:
    if is_about_rows(key) and value.startswith("secret://"):
        return "the value of a secret cannot be checked"
    return risk_of_conf(key, value)


def _is_listed(key: str, allowed: Iterable[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in allowed)


def _is_usual(key: str) -> bool:
    if key in _USUAL:
        return True
    words = {word.lower() for word in _WORDS.findall(key)}
    return key.startswith(_SQL) and key != _NAMES_A_FORMAT and words.isdisjoint(_NAMES_CODE)


def check_described_confs(confs: Iterable[Mapping[str, str]]) -> None:
    """Raise JobUnusable if a job's code itself sets the state format; ``confs``: the confs of its described queries."""
    for conf in confs:
        changed = [key for key, value in FIXED.items() if conf.get(key, value) != value]
        changed += [_ABSENT] if _ABSENT in conf else []
        if changed:
            reason = _REASONS[changed[0].lower()]
            raise JobUnusable(f"the job's code sets {changed[0]}: {reason}", hint="remove the conf from the code")


def installation_confs(confs: Mapping[str, str]) -> dict[str, str]:
    """Return those of ``confs`` that a job may not set. A conf is also found without its prefix
    ``spark.hadoop.``.
    """
    return {key: value for key, value in confs.items() if _reason_against(key.lower())}


def check_unchanged(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raise JobUnusable if a job's code has set, changed or unset a conf in ``installation_confs``."""
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            reason = _reason_against(key.lower())
            raise JobUnusable(f"the job's code sets {key}: {reason}", hint="remove the conf from the code")


def _reason_against(key: str) -> str:
    # A session also accepts Hadoop's settings without their prefix.
    reason = _REASONS.get(key) or _REASONS.get(f"spark.hadoop.{key}")
    return reason or (_STATE_FORMAT if _STATE_FORMAT_VERSION.fullmatch(key) else "")
