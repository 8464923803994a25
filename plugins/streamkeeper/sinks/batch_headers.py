"""The headers by which a Kafka record names its batch, and the filter by which a reader drops replayed records.

A writer adds the headers, as UTF-8 text, after those of the query. ``newest_attempts`` reads them. It is for readers of
a topic, which need no driver and no installation, so this module uses nothing but SQL.

A record is replayed for one of four reasons, and a header tells each of them:

- a task of the batch failed and was repeated: the same ``partition`` again, with a higher ``attempt``;
- the batch failed in its driver and was repeated: the same ``epoch`` again, with a higher ``write``;
- another driver replayed the batch: the same ``batch`` again, under a higher ``epoch``;
- a rollback, a restore or a handoff continued at an earlier batch: a higher ``epoch``, whose ``lineage`` lists the
  checkpoint versions of which the output consists from then on, and the last batch of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkeeper.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamkeeper.sinks.contract import SinkContext

__all__ = ["newest_attempts", "with_batch_headers"]

PREFIX = "streamkeeper."
TASK_CLASS = "TaskAttempt"
"""The class of the package ``jvm`` that returns the id of a task's attempt."""
HEADERS = "array<struct<key:string,value:binary>>"
"""The type of the column ``headers`` that Spark's Kafka writer accepts."""
_TEXTS = ("installation", "job", "query", "version", "lineage")
_NUMBERS = ("batch", "epoch", "write", "partition", "attempt")
NAMES = (*_TEXTS, *_NUMBERS)
"""The headers in the order in which a writer adds them, without their prefix."""


def with_batch_headers(batch: DataFrame, context: SinkContext, batch_id: int, write: int) -> DataFrame:
    """Return the batch with the headers of this write after those of the query.

    ``write``: the number of this write among all writes of this epoch.
    """
    lineage = ",".join(
        segment.version if segment.last is None else f"{segment.version}:{segment.last}"
        for segment in context.lineage or context.serving
    )
    constants = {
        "installation": context.installation,
        "job": context.job,
        "query": context.query,
        "version": context.version,
        "lineage": lineage or context.version,
        "batch": str(batch_id),
        "epoch": str(context.epoch),
        "write": str(write),
    }
    values = {name: f"X'{text.encode().hex()}'" for name, text in constants.items()}
    values["partition"] = "CAST(CAST(spark_partition_id() AS STRING) AS BINARY)"
    values["attempt"] = f"CAST(reflect('streamkeeper.jvm.{TASK_CLASS}', 'id') AS BINARY)"
    ours = ", ".join(f"named_struct('key', '{PREFIX}{name}', 'value', {values[name]})" for name in NAMES)
    none = f"CAST(array() AS {HEADERS})"
    theirs = f"coalesce(headers, {none})" if "headers" in batch.columns else none
    kept = [name for name in batch.columns if name != "headers"]
    return batch.selectExpr(*kept, f"concat({theirs}, array({ours})) AS headers")


def newest_attempts(frame: DataFrame) -> DataFrame:
    """Return the records of a Kafka topic without those that were replaced by a replay.

    ``frame``: a batch frame with the column ``headers``, as ``spark.read.format("kafka")`` returns it with the option
    ``includeHeaders``. It must contain every record of the topic, or all of them since some offsets. Records without
    the headers of a KafkaSink are returned unchanged.

    The newest batch of a query may be incomplete, because its driver may still be writing it. After a rollback or a
    restore, the rows of the batches that are read again are missing until they are written again.

    Raises InvalidInput if the frame has no column ``headers``, or is a streaming frame: a later record decides whether
    an earlier one counts.
    """
    if frame.isStreaming:
        raise InvalidInput(
            "newest_attempts takes a batch frame, and this one is streaming",
            hint="read the topic with spark.read, because a later record decides whether an earlier one counts",
        )
    if "headers" not in frame.columns:
        raise InvalidInput(
            "newest_attempts needs the column headers",
            hint='read the topic with .option("includeHeaders", "true"), and select headers, too',
        )
    return _filtered(frame, frame)


def _filtered(records: DataFrame, judges: DataFrame) -> DataFrame:
    """Return the records that no newer lineage, epoch, write or attempt has replaced.

    ``judges``: the records that determine the newest lineages. Spark reads the topic for each of the two frames, and
    one reading may see records that the other one lacks.
    """
    return records.sparkSession.sql(_FILTER, records=records, judges=judges)


_VALUES = {name: f"CAST(get(_ours, {number}).value AS STRING)" for number, name in enumerate(NAMES)}
_VALUES |= {name: f"try_cast({_VALUES[name]} AS BIGINT)" for name in _NUMBERS}
_FIELDS = ", ".join(f"'{name}', {value}" for name, value in _VALUES.items())
_COMPLETE = " AND ".join(
    [f"get(_ours, {number}).key = '{PREFIX}{name}'" for number, name in enumerate(NAMES)]
    + [f"{_VALUES[name]} IS NOT NULL" for name in NAMES]
)
_OURS = f"slice(filter(headers, h -> startswith(h.key, '{PREFIX}')), -{len(NAMES)}, {len(NAMES)}) AS _ours"
_SK = f"CASE WHEN {_COMPLETE} THEN named_struct({_FIELDS}) END AS _sk"
_QUERY = ("_sk.installation", "_sk.job", "_sk.query")
_ROOT = "substring_index(substring_index(_sk.lineage, ',', 1), ':', 1)"
"""The version whose batch 0 the numbers of a lineage begin with."""
_VERSION, _LAST = "split_part(s, ':', 1)", "try_cast(split_part(s, ':', 2) AS BIGINT)"
"""The parts of a lineage's segment ``s``."""
_IN_LINEAGE = (
    "exists(split(line.lineage, ','), s ->"
    f" {_VERSION} = _sk.version AND (NOT contains(s, ':') OR _sk.batch <= {_LAST}))"
)
_REPLACED = f"exists(split(line.lineage, ','), s -> {_VERSION} = _sk.version AND coalesce({_LAST} < _sk.batch, false))"
_BATCH = ", ".join((*_QUERY, "_sk.version", "_sk.batch", "_alone"))
_FILTER = f"""
WITH read AS (SELECT *, {_OURS} FROM {{records}}),
marked AS (SELECT * EXCEPT (_ours), {_SK} FROM read),
judging AS (SELECT {_SK} FROM (SELECT {_OURS} FROM {{judges}})),
newest AS (
  SELECT {", ".join(_QUERY)}, {_ROOT} AS root, max(_sk.epoch) AS epoch, max_by(_sk.lineage, _sk.epoch) AS lineage,
    collect_set(_sk.version) AS versions
  FROM judging GROUP BY {", ".join(_QUERY)}, {_ROOT}
),
lines AS (
  SELECT installation, job, query, collect_list(struct(root, epoch, lineage, versions)) AS of_query
  FROM newest GROUP BY installation, job, query
),
kept AS (
  SELECT marked.*, CASE WHEN _sk IS NULL THEN monotonically_increasing_id() END AS _alone
  FROM marked LEFT JOIN lines
    ON _sk.installation <=> lines.installation AND _sk.job <=> lines.job AND _sk.query <=> lines.query
  WHERE _sk IS NULL OR lines.of_query IS NULL OR forall(lines.of_query, line -> CASE
    WHEN line.root = {_ROOT} OR (line.epoch > _sk.epoch AND array_contains(line.versions, _sk.version))
    THEN line.epoch = _sk.epoch OR {_IN_LINEAGE}
    ELSE line.epoch <= _sk.epoch OR NOT {_REPLACED} END)
),
ranked AS (
  SELECT *,
    max(struct(_sk.epoch, _sk.write)) OVER (PARTITION BY {_BATCH}) AS _last_write,
    max(_sk.attempt) OVER (PARTITION BY {_BATCH}, _sk.epoch, _sk.write, _sk.partition) AS _last_attempt
  FROM kept
)
SELECT * EXCEPT (_sk, _alone, _last_write, _last_attempt) FROM ranked
WHERE _sk IS NULL
  OR (_sk.epoch = _last_write.epoch AND _sk.write = _last_write.write AND _sk.attempt = _last_attempt)
"""
"""``_ours``: the headers of the last writer, in the order of ``NAMES``. Looking each of them up by its name would take
most of the time of the filter.

``newest``: the newest epoch of each line of versions, and its lineage. A record counts if it is of that epoch, or if
that lineage has its batch. So all records are judged by the same lineages, also those that came after the reading of
``judges``. ``lines``: the same for a whole query. After the journal was rebuilt, a version may begin a line of its own
whose records are in another line, too. A newer line with records of that version decides about all of them. A newer
line that only names that version decides about the batches that it excludes. Records without headers have an entry
without an epoch: conditions that exclude them would be evaluated before ``_sk`` is computed, and compute it a second
time.

``_alone``: a number of its own for each record without headers, so that these records form no group.
"""
