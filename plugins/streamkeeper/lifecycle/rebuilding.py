"""Rebuilds a lost journal: makes one record from checkpoints, outputs and snapshots, or lists the reasons against it.

The output shows which checkpoint version was current, because the output's last writer moved its fence. Version numbers
and dates prove nothing, because the newer of two versions may belong to a switch that never finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from streamkeeper.model.names import version_name, version_number
from streamkeeper.model.records.epoch_claim import EpochClaim
from streamkeeper.model.records.lost_store import Fence, LostJob, SeenCheckpoint
from streamkeeper.model.records.rebuilt import JobRebuilt, RebuiltQuery, RebuiltVersion

NO_BATCH = -1
"""Marks a version that has already started, so that no batch of its parent must be carried over."""


class RebuildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A person's statements about the lost job, in addition to what was observed of it."""

    requested_by: str
    """The person who requested the rebuild."""
    reason: str
    """The person's reason."""
    asked_at: str
    """The time, UTC, ISO 8601."""
    seconds: int
    """The same time in seconds since 1970."""
    unfenced: frozenset[str] = frozenset()
    """Queries whose output is a function or a topic, which store no epoch."""
    versions: Mapping[str, str] = {}
    """Query -> the current version."""
    missing: frozenset[str] = frozenset()
    """Queries that the job no longer has; their checkpoints may be missing."""
    no_driver_elsewhere: bool = False
    """The person states that no driver runs where processes cannot be observed."""


class RebuildPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan for rebuilding the journal of one job."""

    job: str
    """The job's name."""
    record: JobRebuilt | None
    """The record; None if it must not be written."""
    refusals: tuple[str, ...] = ()
    """The reasons why the record must not be written, each with its remedy."""
    lines: tuple[str, ...] = ()
    """The plan, one sentence per line."""


def _of_installation(claims: tuple[EpochClaim, ...], installation: str) -> tuple[EpochClaim, ...]:
    return tuple(claim for claim in claims if claim.installation in ("", installation))


class _Undecided(Exception):
    """The error for a current version that cannot be determined; its text is the reason with the remedy."""


def decide_rebuild(seen: LostJob, asked: RebuildRequest, installation: str) -> RebuildPlan:
    """Return the plan: the record that recreates the journal, or the reasons why no such record may be written.

    ``installation``: the id of the installation that wrote the job's outputs.
    """
    if seen.journal:
        return RebuildPlan(job=seen.job, record=None, refusals=(seen.journal,))
    mine = {query: _of_installation(claims, installation) for query, claims in seen.claims.items()}
    seen = msgspec.structs.replace(seen, claims={query: claims for query, claims in mine.items() if claims})
    refusals = [*_drivers(seen, asked)]
    queries: dict[str, RebuiltQuery] = {}
    for query in seen.queries:
        try:
            queries[query] = _query(seen, asked, query, installation)
        except _Undecided as why:
            refusals.append(f"query {query}: {why}")
    if not queries and not refusals:
        refusals.append(
            f"neither a checkpoint nor an output of job {seen.job} was found (check STREAMKEEPER_CHECKPOINTS)"
        )
    if refusals:
        return RebuildPlan(job=seen.job, record=None, refusals=tuple(refusals))
    record = JobRebuilt(
        requested_by=asked.requested_by,
        reason=asked.reason,
        at=asked.asked_at,
        proof=_proof(seen),
        epoch=_epoch(seen, asked),
        newest_release=max([_release(seen), *(snapshot.newest_release for snapshot in seen.snapshots.values())]),
        queries=queries,
        lost=tuple(_lost(seen, queries)),
    )
    return RebuildPlan(job=seen.job, record=record, lines=tuple(_tell(record)))


def decide_installation(wanted: frozenset[str], present: str, others: tuple[str, ...]) -> tuple[str, str]:
    """Return the id that the store must get, and an empty reason; if no id can be chosen, return an empty id and the
    reason. An empty id without a reason means that the store keeps its own id.

    ``wanted``: the ids in outputs, snapshots and drivers.
    ``present``: the store's own id, empty if it has none.
    ``others``: the jobs that are recorded under ``present``.
    """
    if len(wanted) > 1:
        return "", (
            f"the records found belong to {len(wanted)} installations ({', '.join(id[:8] for id in sorted(wanted))})."
            " Rebuild the jobs one by one, by name, and use a separate store for those of another installation"
        )
    id = next(iter(wanted), "")
    if id and present and id != present and others:
        return "", (
            f"the store already belongs to the installation {present[:8]}, with {', '.join(others)}, but the outputs"
            f" belong to {id[:8]}. Set STREAMKEEPER_STORE to an empty place, rebuild there, and redeploy"
            f" {', '.join(others)}"
        )
    return id, ""


def _drivers(seen: LostJob, asked: RebuildRequest) -> Iterator[str]:
    """Yield the reasons why a driver may still write, because two drivers on one checkpoint lose or duplicate rows."""
    for driver in seen.drivers:
        if driver.alive:
            yield (
                f"driver {driver.instance} still runs on {seen.host} ({driver.alive}). Use `--end-drivers` to end it,"
                " or wait: the driver ends within a minute of losing its store"
            )
    if seen.unseen and not asked.no_driver_elsewhere:
        yield (
            f"a driver could be running where it cannot be observed from here: {seen.unseen}. Run the rebuild there, or"
            " ensure that no driver is left there and confirm that with `--no-driver-elsewhere`"
        )


def _query(seen: LostJob, asked: RebuildRequest, query: str, installation: str) -> RebuiltQuery:
    fence = _fence(seen, asked, query)
    there = {version.version: version for version in seen.checkpoints.get(query, ())}
    current = _current(seen, asked, query, fence, there)
    if current and current not in there and query not in asked.missing:
        raise _Undecided(_told_gone(seen, query, fence, current))
    known = {*there, *(fence.versions if fence else ()), *([fence.version] if fence and fence.version else [])}
    if query in seen.snapshots:
        known |= set(seen.snapshots[query].versions)
    known |= {current} - {""}
    if known:
        known |= {claim.version for claim in seen.claims.get(query, ())}
    versions = [_version(name, there.get(name), fence, installation) for name in sorted(known, key=version_number)]
    parents = _parents(fence, current, there)
    return RebuiltQuery(
        output=fence.output if fence else "",
        version=current,
        versions=tuple(msgspec.structs.replace(version, **parents.get(version.version, {})) for version in versions),
    )


def _fence(seen: LostJob, asked: RebuildRequest, query: str) -> Fence | None:
    """Return the fence of the output that the query wrote last, by the highest epoch; None if the output is a function.

    Raises _Undecided if that output cannot be determined.
    """
    fences = sorted(seen.fences.get(query, ()), key=lambda fence: fence.claimed)
    if not fences:
        if query in asked.unfenced:
            return None
        raise _Undecided(
            f"none of the named outputs belongs to the query. Add the database or directory of the query's output with"
            f" `--output`. If the query's sink is a topic or your own function, which record no epoch, use"
            f" `--unfenced {seen.job}/{query}` instead"
        )
    if query in asked.unfenced:
        raise _Undecided(f"output {fences[-1].output} records an epoch, so omit `--unfenced`")
    if len(fences) > 1 and fences[-2].claimed == fences[-1].claimed:
        raise _Undecided(
            f"{fences[-2].output} and {fences[-1].output} were both claimed under epoch {fences[-1].claimed}; name only"
            " the current one with `--output`"
        )
    return fences[-1]


def _current(
    seen: LostJob, asked: RebuildRequest, query: str, fence: Fence | None, there: Mapping[str, SeenCheckpoint]
) -> str:
    said, written = asked.versions.get(query, ""), fence.version if fence else ""
    # Without a checkpoint a claim proves only that its epoch is taken.
    claim = max(seen.claims.get(query, ()) if there else (), key=lambda claim: claim.epoch, default=None)
    if claim is not None and not written:
        written = claim.version
    elif claim is not None and fence is not None and claim.epoch > fence.claimed and claim.version != written:
        raise _Undecided(
            f"output {fence.output} was claimed for {written} with epoch {fence.claimed}, but checkpoint"
            f" {claim.version} has a later claim, with epoch {claim.epoch}. If {claim.version} has written a batch,"
            f" restore the newest state of the output. If {claim.version} has never written a batch, move away the"
            f" folder .claims that is next to {claim.version} instead"
        )
    if written and (said or written) != written:
        if written in there and not _is_ahead(fence, there[written]):
            held = f"the output contains batches of {written}" if fence else f"the driver claimed {written}"
            raise _Undecided(f"{held}, and checkpoint {written} exists, so omit `--version`")
        if said not in there or version_number(said) <= _newest(seen, query, fence, without=said):
            restored = _restored_name(seen, query, fence)
            raise _Undecided(
                f"checkpoint {said} cannot replace {written}, because {said} is missing or is not the newest version."
                f" Restore a snapshot into {restored}, then run the command again with"
                f" `--version {seen.job}/{query}={restored}`"
            )
        return said
    if written:
        begun = fence is not None and len(fence.serving) > 1
        if written not in there and begun and fence is not None and fence.batch is None:
            raise _Undecided(
                f"the output was handed over to checkpoint {written}, which has written no batch yet, and the"
                f" directory of {written} is missing. Put the unchanged directory of {written} back"
            )
        return written
    if not there:
        return ""
    if said:
        if said not in there:
            raise _Undecided(f"there is no checkpoint {said}; the query has {', '.join(sorted(there))}")
        return said
    if len(there) != 1:
        holds = f"{fence.output} contains no batch yet" if fence else "no output records the current version"
        raise _Undecided(
            f"{holds}, and there are {len(there)} checkpoints ({', '.join(sorted(there))}). One of them may belong to a"
            f" switch that never completed. Name the current checkpoint with `--version {seen.job}/{query}=v…`"
        )
    return next(iter(there))


def _is_ahead(fence: Fence | None, directory: SeenCheckpoint) -> bool:
    """Whether the output contains batches that the checkpoint does not."""
    if fence is None or fence.version != directory.version or fence.batch is None:
        return False
    return directory.planned is None or fence.batch > directory.planned


def _version(name: str, directory: SeenCheckpoint | None, fence: Fence | None, installation: str) -> RebuiltVersion:
    if directory is not None:
        return RebuiltVersion(
            version=name,
            origin="seen in its directory",
            root=directory.root,
            query_id=directory.query_id,
            committed=directory.committed,
            installation=installation,
        )
    # The version had planned every batch in its output: a directory with fewer batches must not be taken for it.
    held = fence.batch if fence is not None and fence.version == name else None
    return RebuiltVersion(
        version=name, origin="named by an output or a snapshot; its directory is gone", committed=held,
        installation=installation,
    )  # fmt: skip


def _parents(
    fence: Fence | None, current: str, there: Mapping[str, SeenCheckpoint]
) -> dict[str, dict[str, str | int | None]]:
    """Return version -> its parent, according to the output, also for a version that a person has restored by hand."""
    if fence is None:
        return {}
    found: dict[str, dict[str, str | int | None]] = {}
    for before, after in zip(fence.serving, fence.serving[1:], strict=False):
        # A version without a write contains only the handed-over batch; its sink log starts with that one.
        unchanged = after.version == fence.version and fence.batch is None and after.version in there
        number = there[after.version].committed if unchanged else NO_BATCH
        found[after.version] = {"parent": before.version, "parent_batch": before.last, "batch": number}
    if current != fence.version and fence.version:
        # It keeps its parent's batch numbers, and the output's batches beyond its own are replayed.
        found[current] = {"parent": fence.version, "parent_batch": there[current].committed}
    return found


def _newest(seen: LostJob, query: str, fence: Fence | None, *, without: str = "") -> int:
    """Return the highest version number in any observation, not counting the version ``without``."""
    names = {version.version for version in seen.checkpoints.get(query, ())} | set(fence.versions if fence else ())
    if query in seen.snapshots:
        names |= set(seen.snapshots[query].versions)
    return max((version_number(name) for name in names - {without}), default=0)


def _restored_name(seen: LostJob, query: str, fence: Fence | None) -> str:
    return version_name(_newest(seen, query, fence) + 1)


def _epoch(seen: LostJob, asked: RebuildRequest) -> int:
    """Return an epoch that no earlier driver has exceeded. The next claim gets a higher epoch.

    A function without a claim next to its checkpoint has received epochs that cannot be read back. For such a function
    the epoch is the number of seconds since 1970, which no count of claims approaches.
    """
    epochs = [fence.epoch for fences in seen.fences.values() for fence in fences]
    epochs += [driver.epoch for driver in seen.drivers]
    epochs += [claim.epoch for claims in seen.claims.values() for claim in claims]
    return max([0, *epochs, *([asked.seconds] if asked.unfenced - set(seen.claims) else [])])


def _release(seen: LostJob) -> int:
    return max((driver.release for driver in seen.drivers), default=0)


def _proof(seen: LostJob) -> str:
    nobody = f"no process of a driver of {seen.job} on {seen.host}"
    return f"{nobody}, and none elsewhere by a person's statement ({seen.unseen})" if seen.unseen else nobody


def _lost(seen: LostJob, queries: Mapping[str, RebuiltQuery]) -> Iterator[str]:
    """Yield a phrase for each loss that the rebuild cannot undo, with its remedy."""
    yield (
        f"the releases of {seen.job} and their params are not recorded. Deploy the job's file with `--params`; a person"
        " must approve, because the old code is unknown"
    )
    for query, of in queries.items():
        there = {version.version: version for version in seen.checkpoints.get(query, ())}
        fence = next((claim for claim in seen.fences.get(query, ()) if claim.output == of.output), None)
        if of.version and of.version not in there:
            yield f"the checkpoint {of.version} of {query}; a release that contains that query is refused"
        elif of.version and fence is not None and fence.version == of.version and fence.batch is not None:
            planned, committed = there[of.version].planned, there[of.version].committed
            if _is_ahead(fence, there[of.version]):
                knows = f"batches up to {planned}" if planned is not None else "no batch"
                yield (
                    f"the checkpoint {of.version} of {query} has planned {knows}, but its output contains batch"
                    f" {fence.batch}. A deploy is refused until the checkpoint is put back as it was."
                    f" {_way(seen, query, fence)}"
                )
            elif committed is not None and fence.batch < committed:
                yield (
                    f"the output of {query} ends at batch {fence.batch}, but its checkpoint has committed {committed}:"
                    " the output is an older copy, and the missing batches are not written again"
                )


def _told_gone(seen: LostJob, query: str, fence: Fence | None, current: str) -> str:
    held = f", up to batch {fence.batch}" if fence is not None and fence.batch is not None else ""
    return (
        f"its output was written by checkpoint {current}{held}, which is missing (check STREAMKEEPER_CHECKPOINTS)."
        f" {_way(seen, query, fence)}. If the job no longer has the query, use `--gone {seen.job}/{query}`"
    )


def _way(seen: LostJob, query: str, fence: Fence | None) -> str:
    snapshots = seen.snapshots.get(query)
    if snapshots is None:
        return "No snapshot of it was found. Put the checkpoint back, or deploy the query under another name and output"
    name = _restored_name(seen, query, fence)
    return (
        f"Its newest snapshot {snapshots.name} contains batch {snapshots.batch} of {snapshots.version}. To use it, run"
        f" `streamkeeper snapshot restore {seen.job}/{query} --to <checkpoints>/{seen.job}/{query}/{name}` before this"
        f" rebuild, and add `--version {seen.job}/{query}={name}`; later batches in the output are written again"
    )


def _tell(record: JobRebuilt) -> Iterator[str]:
    for query, of in sorted(record.queries.items()):
        if not of.version:
            yield f"query {query} starts from the beginning: it has no batch in {of.output} and no checkpoint"
            continue
        served = next(version for version in of.versions if version.version == of.version)
        stands = f"batch {served.committed} committed" if served.committed is not None else "no batch committed"
        others = ", ".join(version.version for version in of.versions if version is not served)
        yield (
            f"query {query}: {of.version} was current ({stands}), with the output {of.output or 'of a function'}"
            + (f"; also known, but not continued: {others}" if others else "")
        )
    yield f"the next epoch of every query is above {record.epoch}, the next release is r{record.newest_release + 1:04d}"
    yield f"drivers: {record.proof}"
    yield from (f"not recovered: {loss}" for loss in record.lost)
