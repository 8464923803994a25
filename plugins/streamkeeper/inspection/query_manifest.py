"""Creates the manifest that describes a query before its start, and that is the same for every build of
the same code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from streamkeeper.authoring.job_code import TOO_DEEP, is_too_deep
from streamkeeper.errors import JobUnusable
from streamkeeper.inspection.code_digest import CodeDigest
from streamkeeper.inspection.confs import read_confs
from streamkeeper.inspection.functions import find_functions, find_sink_functions
from streamkeeper.inspection.operators import find_delays, find_operators, find_watermarks
from streamkeeper.inspection.plan_reading import QueryPlan, whole_strings
from streamkeeper.inspection.plan_sources import find_sources
from streamkeeper.inspection.plan_tree import unnumbered
from streamkeeper.inspection.written import lines_in_bundle
from streamkeeper.model.manifests.manifest import DIGESTS, Manifest, StateColumn
from streamkeeper.model.manifests.quoting import schema_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamkeeper.authoring.definition import Query


def describe(query: Query, spark: SparkSession, *, bundle_root: Path | None) -> Manifest:
    """Return the manifest of ``query`` without starting it.

    ``spark``: the session. ``bundle_root``: the directory to which the job's code was unpacked. The settings in the
    manifest are the current settings of the query's session. If the plan contains rows that the job's code created,
    these rows are read. Raises JobUnusable for a query that is nested more deeply than Spark can plan.
    """
    session = query.df.sparkSession
    confs = read_confs(session)
    try:
        with whole_strings(session):
            return _described(query, session, confs, spark.version, bundle_root)
    except RecursionError as error:
        hint = "build the query in fewer steps"
        raise JobUnusable(f"query {query.name} is nested too deeply to be described", hint=hint) from error
    except Exception as error:
        if not is_too_deep(error):
            raise
        raise JobUnusable(f"query {query.name} is nested too deeply for Spark to plan it", hint=TOO_DEEP) from error


def _described(
    query: Query, session: SparkSession, confs: dict[str, str], version: str, bundle_root: Path | None
) -> Manifest:
    """Return the manifest of a query, as ``describe`` documents it.

    ``query``: the query.
    ``session``: its session.
    ``confs``: the session's settings.
    ``version``: Spark's version.
    ``bundle_root``: the directory to which the job's code was unpacked.
    """
    plan = QueryPlan(session, query.df, bundle_root)
    sources = find_sources(plan.analyzed)
    lineage = plan.lineage([source.name for source in sources])
    digests = CodeDigest(bundle_root)
    in_plan, in_sink = find_functions(plan, digests), find_sink_functions(query.sink, digests)
    functions = in_plan.digests | in_sink.digests
    parts, reached = digests.parts.of(functions)
    written = {**lineage.written, **in_plan.lines, **in_sink.lines}
    return Manifest(
        query=query.name,
        spark_version=version,
        sources=sources,
        watermarks=find_watermarks(plan.chosen),
        operators=find_operators(plan, lineage),
        plan=plan.normalised(),
        output_schema=schema_text(
            (unnumbered(field.name), f"{field.dataType.simpleString()}{'' if field.nullable else ' not null'}")
            for field in query.df.schema
        ),
        output_mode=query.output_mode.lower(),
        trigger=query.trigger,
        sink=query.sink.describe(),
        confs=confs,
        functions=functions,
        carried=tuple(in_plan.carried),
        sink_names=in_sink.names,
        sink_routing=in_sink.routing,
        sink_columns=in_sink.used(query.df.columns),
        sink_reads=in_sink.reads(bundle_root),
        delays=find_delays(plan.chosen, lineage),
        columns=tuple(
            StateColumn(
                meaning=lineage.canonical(number),
                type=field.dataType.simpleString(),
                name=field.name,
                functions=functions_of(lineage.canonical(number), lineage.function_names, in_plan.digests),
            )
            for number, field in zip(lineage.output.columns, query.df.schema, strict=False)
        ),
        output_rows=lineage.output.rows,
        output_shape=lineage.output.shape,
        written=lines_in_bundle(written, bundle_root),
        digests=DIGESTS,
        bundle=str(bundle_root) if plan.reads_bundle else "",
        parts=parts,
        reached=reached,
        essentials=in_plan.essentials,
        rewritten=in_plan.rewritten | dict(in_sink.rewritten),
    )


_FUNCTION = re.compile(r"\bfunc=(\d+)\b")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_CALL = "pythonud"
"""The first characters of a call to a Python function, aggregate or generator in a canonical expression."""


def functions_of(canonical: str, names: Mapping[int, str], described: Iterable[str]) -> tuple[str, ...] | None:
    """Return the entries of ``described`` for the functions in a canonical expression, in the expression's order.

    ``names``: the name of each function, by its number in canonical expressions.
    ``described``: entries ``place/number name``, one for each function of the plan. If two functions have the same
    name, both are returned.

    Returns None if a function's number is missing, as in a long expression that was replaced by a digest.
    """
    bare = _QUOTED.sub("", canonical)
    numbers = [int(found) for found in _FUNCTION.findall(bare)]
    if len(numbers) < bare.count(_CALL) or not names.keys() >= set(numbers):
        return None
    return tuple(known for number in numbers for known in described if known.partition(" ")[2] == names[number])
