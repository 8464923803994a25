"""Loads the job of a launch from the release's own bundle: its params with secrets filled in, its queries and
manifests.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streamkeeper.authoring.definition import JobDefinition, Query, load_job
from streamkeeper.authoring.job_code import content_of
from streamkeeper.compatibility.older_manifests import as_described_before
from streamkeeper.errors import JobUnusable, PermanentError, RegistryDamaged
from streamkeeper.inspection.query_manifest import describe
from streamkeeper.jvm.values import session_confs
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifests.manifest import Manifest, is_schema, without_context
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.protocol.driver_messages import LaunchSpec
from streamkeeper.model.redaction import redact_everywhere, redact_value
from streamkeeper.model.secret_references import substitute
from streamkeeper.registry.environments import read_environment
from streamkeeper.registry.objects import read_manifest
from streamkeeper.sources.known_sources import check_sources
from streamkeeper.stores.contract import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_VARIABLES = ("LANG", "LC_ALL", "TZ")
"""Environment variables of a driver that affect what code computes."""


class PlannedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query as the job yielded it. ``confs``: the session's settings at that moment, which are restored when the
    query starts.
    """

    query: Query
    manifest: Manifest
    confs: dict[str, str]


def build_queries(
    spec: LaunchSpec, root: Path, spark: SparkSession, secrets: Mapping[str, str]
) -> dict[str, PlannedQuery]:
    """Build and describe every query of a launch's job.

    Raises the errors of ``describe_queries``: JobUnusable, Unsupported or InvalidInput. Also raises Unsupported if a
    query has no streaming source, or has a source for which Streamkeeper gives no guarantee.
    """
    job: JobDefinition = load_job(root, spec.entry, spec.job)
    planned = describe_queries(job, spec.params, root, spark, secrets)
    check_sources(query.manifest for query in planned.values())
    return planned


def describe_queries(
    job: JobDefinition, params: Mapping[str, ParamValue], root: Path, spark: SparkSession, secrets: Mapping[str, str]
) -> dict[str, PlannedQuery]:
    """Build and describe every query of a job, without checking its sources.

    Raises JobUnusable, Unsupported or InvalidInput.

    ``job``: the job's definition.
    ``params``: the job's params, with references to secrets.
    ``root``: the directory of the job's code.
    ``spark``: the session.
    ``secrets``: reference -> value of the secret.
    """
    planned: dict[str, PlannedQuery] = {}
    context = _context(root, params)
    for query in job.build(spark, substitute(params, secrets)):
        described = msgspec.structs.replace(describe(query, spark, bundle_root=root), context=context)
        manifest = redact_value(described, secrets)
        planned[query.name] = PlannedQuery(query=query, manifest=manifest, confs=session_confs(spark))
    return planned


def _context(root: Path, params: Mapping[str, ParamValue]) -> str:
    """Return a digest of everything that affects the code's results but is not part of a code digest; empty if unknown.

    Params contain references to secrets, never the secrets themselves.
    """
    content = content_of(root)
    if not content:
        return ""
    variables = {name: os.environ.get(name, "") for name in _VARIABLES}
    return hashlib.sha256(to_json([content, read_environment().digest, dict(params), variables])).hexdigest()


def check_manifests(
    spec: LaunchSpec, described: Mapping[str, Manifest], store: Store, secrets: Mapping[str, str]
) -> None:
    """Raise PermanentError when the job's queries differ from those in ``spec.expected_manifests``, with which the
    release was checked. A manifest that differs only in the environment is accepted.
    """
    expected = spec.expected_manifests
    if not expected:
        return
    differing = sorted(
        name
        for name in {*expected, *described}
        if name not in expected or name not in described or not _is_stored(store, spec, name, described[name], secrets)
    )
    if differing:
        _check_surroundings(spec, described, store)
        raise PermanentError(
            f"release {spec.release} of job {spec.job} builds queries that differ from those that were checked:"
            f" {', '.join(differing)}",
            hint="build the same queries every time, without random names, times or unordered sets in the plan",
        )


def check_again(
    spec: LaunchSpec, described: Mapping[str, Manifest], before: Mapping[str, Manifest], secrets: Mapping[str, str]
) -> None:
    """Raise JobUnusable when the queries of a restarted instance differ from ``before``, which is their manifests from
    before the restart.

    Parts that an older version of Streamkeeper could not describe are ignored, because Streamkeeper may have been
    upgraded between the two starts.
    """
    for query in sorted({*described, *before}):
        if query not in described or query not in before:
            raise _other(spec, query, "is new" if query in described else "is missing")
        now, stored = as_described_before(_as_recorded(described[query], before[query]), before[query])
        now, stored = without_context(now), redact_value(without_context(stored), secrets)
        if now.sink != stored.sink:
            raise JobUnusable(
                f"query {query} of job {spec.job}: after the restart its output is {_place(now)}, not {_place(stored)}",
                hint="to keep the output, make its URL or path lead to the old place again, and start the job. To write"
                " to the new place, deploy the job",
            )
        if now != stored:
            fields = [name for name in Manifest.__struct_fields__ if getattr(now, name) != getattr(stored, name)]
            raise _other(spec, query, f"differs in {', '.join(fields).replace('_', ' ')}")


def _place(manifest: Manifest) -> str:
    sink = manifest.sink
    return f"{sink.output} ({sink.server})" if sink.server else sink.output


def _other(spec: LaunchSpec, query: str, how: str) -> JobUnusable:
    return JobUnusable(
        f"job {spec.job} built different queries when its driver {spec.instance} restarted: query {query} {how}",
        hint="build the same queries every time, without random names, times or unordered sets in the plan",
    )


def _check_surroundings(spec: LaunchSpec, described: Mapping[str, Manifest], store: Store) -> None:
    """Raise PermanentError when the release was described under another Spark or with other settings than those of this
    process.

    The release contains its own settings, so a difference comes from the installation or its environment.
    """
    for name in sorted({*spec.expected_manifests} & {*described}):
        try:
            before, now = read_manifest(store, spec.job, spec.expected_manifests[name]), described[name]
        except RegistryDamaged:
            continue
        if before.spark_version != now.spark_version:
            raise PermanentError(
                f"release {spec.release} of job {spec.job} was checked under Spark {before.spark_version}, but this is "
                f"Spark {now.spark_version}. A start does not upgrade a release",
                hint=f"run `streamkeeper deploy {spec.job}`, which checks the current code under Spark "
                f"{now.spark_version}, or start {spec.release} where Spark {before.spark_version} is installed",
            )
        if others := [
            key for key in sorted({*before.confs, *now.confs}) if before.confs.get(key) != now.confs.get(key)
        ]:
            raise PermanentError(
                f"release {spec.release} of job {spec.job} was checked with other values of these settings: "
                f"{', '.join(others)}",
                hint="restore these settings (STREAMKEEPER_CHECKPOINTS and AWS_ENDPOINT_URL set the s3a settings), or"
                f" run `streamkeeper deploy {spec.job}` to deploy the current code",
            )


def _as_recorded(found: Manifest, stored: Manifest) -> Manifest:
    """Return the manifest without the sink's server, if the Streamkeeper version that described the release recorded
    none.
    """
    if stored.sink.server is not None or found.sink.server is None:
        return found
    if is_schema(found.sink.server):
        raise PermanentError(
            f"the URL of {found.sink.output} names the schema {found.sink.server}. The version of Streamkeeper that"
            " checked the release ignored this schema",
            hint="to keep writing to the present table, remove search_path and role from the options of the URL. To"
            " write to the schema in the URL, deploy the job",
        )
    return msgspec.structs.replace(found, sink=msgspec.structs.replace(found.sink, server=None))


def _is_stored(store: Store, spec: LaunchSpec, query: str, found: Manifest, secrets: Mapping[str, str]) -> bool:
    """Whether a manifest equals the stored one.

    ``store``: the store.
    ``spec``: the launch specification.
    ``query``: the query.
    ``found``: its manifest now.
    ``secrets``: values to mask.
    """
    expected = spec.expected_manifests[query]
    if hashlib.sha256(to_json(found)).hexdigest() == expected:
        return True
    try:
        stored = without_context(read_manifest(store, spec.job, expected))
        found = _as_recorded(found, stored)
        found, stored = as_described_before(found, stored)
        # An earlier version may have masked less, so its records are masked again with today's rules.
        if redact_value(stored, secrets) == without_context(found):
            return True
        masked = redact_everywhere(to_json(found).decode(), secrets)
        return stored == without_context(from_json(masked.encode(), Manifest, where=query))
    except RegistryDamaged:
        return False
