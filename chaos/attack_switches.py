"""Switches off the protection against each attack; only negative controls use it.

A function of a module is replaced before any other module has imported it by name, so nothing of Streamkeeper that uses
it may have been imported yet: each function here imports only what it changes.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.replacing import replace_in

if TYPE_CHECKING:
    from collections.abc import Collection

    from streamkeeper.model.records.job_state import JobState
    from streamkeeper.model.records.snapshot import Snapshot
    from streamkeeper.operations.jobs.installation import Installation
    from streamkeeper.snapshots.restore import Show
    from streamkeeper.snapshots.retention import Candidate, Policy, RetentionDecision


def without_asking_outputs() -> None:
    """A restore queries no output for what it holds, so nothing is reported about batches beyond the snapshot."""
    from streamkeeper.operations.jobs import outputs
    from streamkeeper.sinks.contract import OutputAnswer

    outputs.ask = lambda *_arguments: OutputAnswer()


def without_continuity() -> None:
    """Whatever is in a checkpoint's directory is accepted as the checkpoint."""
    from streamkeeper.checkpoints import identity
    from streamkeeper.driver.continuity import Continuity

    identity.find_loss = lambda tree, known: ""
    replace_in(Continuity, check_start=lambda self: None, check_batch=lambda self, batch_id: None)


def without_ahead() -> None:
    """A driver may begin although its output holds batches that its checkpoint has not recorded."""
    from streamkeeper.driver import epoch

    replace_in(epoch, _refuse_if_ahead=lambda writer, claim, planned: None)


def without_output_records() -> None:
    """An output's own record is not compared with what the checkpoint has committed."""
    from streamkeeper.model.protocol import output_history

    output_history.find_output_loss = lambda history, committed, record: ""


def without_owners() -> None:
    """No check before a takeover verifies which query owns the output."""
    from streamkeeper.driver import preflight

    preflight.look_at_owner = lambda job, query, installation: iter(())


def without_roots() -> None:
    """A checkpoint is searched for where the current variables point, whatever root was recorded with it."""
    from streamkeeper.model.records.job_state import JobState
    from streamkeeper.operations.jobs import registered

    replace_in(JobState, root_of=lambda self, query, version, root: root)
    registered.recorded_findings = lambda installation, state: {}


def without_reservation() -> None:
    """A restore replaces whatever is in its place, whoever wrote it."""
    from streamkeeper.checkpoints.trees import LocalTree
    from streamkeeper.operations.deploys import version_acts
    from streamkeeper.snapshots.catalogue import Catalogue
    from streamkeeper.snapshots.restore import restore

    def fill(
        installation: Installation,
        state: JobState,
        query: str,
        version: str,
        snapshot: Snapshot,
        *,
        catalogue: Catalogue | None = None,
        show: Show | None = None,
    ) -> None:
        """Restore in place of what is there, which is moved aside."""
        target = installation.checkpoint(state, query, version)
        assert isinstance(target, LocalTree)
        if target.root.exists():
            shutil.move(target.root, target.root.with_name(f".{version}.aside"))
        restore(catalogue or Catalogue(installation.snapshots, snapshot.series), snapshot, target, show=show)

    version_acts.fill_version = fill


def without_installation() -> None:
    """A copy of an installation is accepted as the installation that it was copied from."""
    from streamkeeper.model.records.installation_record import InstallationRecord
    from streamkeeper.registry import installations
    from streamkeeper.runners.process_tree import Mark

    installations.find_misplaced = lambda store, installation, home: ""
    replace_in(InstallationRecord, is_mine=lambda self, recorded: True)
    replace_in(Mark, excludes=lambda self, environment: False)


def without_named_sources() -> None:
    """The files that a batch is to read are not checked."""
    from streamkeeper.checkpoints.input_files import FileLook
    from streamkeeper.inspection import input_look

    input_look.missing_files = lambda query, checkpoint, batch: FileLook(total=0)


def without_input_files() -> None:
    """Whether input files still exist is not checked."""
    from streamkeeper.checkpoints import input_files

    input_files.look_for_files = lambda paths, *, unseen=None: input_files.FileLook(total=0)


def without_old_input() -> None:
    """Files that are too old for Spark are not distinguished from those that it has read."""
    from streamkeeper.checkpoints import unread_files

    unread_files.too_old = lambda unread, newest_ms, max_age_ms: set()


def without_seen_files() -> None:
    """Any new input location is treated as one in which each file is read once."""
    from streamkeeper.checkpoints import seen_files

    seen_files.would_read_all = lambda *_: True


def without_clones() -> None:
    """A rehearsal runs the job's own plan, with its source's own options."""
    from streamkeeper.inspection import clones

    clones.clone_of = lambda df: df


def without_input_names() -> None:
    """Files that Spark would read twice are not detected."""
    from streamkeeper.checkpoints import open_input
    from streamkeeper.jvm import batch_files

    batch_files.check_files = lambda batch, number: None
    open_input.doubling_files = lambda tree, batch: []


def without_local_paths() -> None:
    """A URL is accepted as a path; a ``file:`` URL still resolves to its path, because the installation's own places
    use such URLs.
    """
    from streamkeeper import locations

    locations.local_path = lambda what, location, *, hint="": Path(location.removeprefix("file://")).absolute()


def without_release_confs() -> None:
    """A release may set any conf."""
    from streamkeeper.model.settings import release_conf

    release_conf.check_release_conf = lambda conf, allowed=(): None
    release_conf.check_described_confs = lambda confs: None


def without_names() -> None:
    """Whatever has the name of an internal table or directory is accepted as such."""
    from streamkeeper.sinks import file_serving, versions_of_table

    versions_of_table.find_staging_table = lambda connection, table: None
    versions_of_table.is_reserved = lambda table: False
    file_serving.is_shadow = lambda root, version: True


def without_servers() -> None:
    """An output is identified by the host, port and path of its URL alone."""
    from streamkeeper.sinks import databases

    databases.server_of = lambda url: ""


def without_order() -> None:
    """Snapshots are kept by their age relative to the current clock."""
    import pendulum

    from streamkeeper.snapshots import retention

    real = retention.decide_retention

    def decide(candidates: Collection[Candidate], policy: Policy) -> tuple[RetentionDecision, ...]:
        """Drop the snapshots that are older than the days kept, and those with a time in the future."""
        now = pendulum.now("UTC").timestamp()
        ages = {each.number: (now - each.taken_at.timestamp()) / (24 * 3600) for each in candidates}
        kept = [each for each in candidates if 0 <= ages[each.number] <= policy.daily]
        gone = [each for each in candidates if each not in kept]
        dropped = [retention.RetentionDecision(number=each.number, keep=False, reasons=("too old",)) for each in gone]
        return tuple(sorted([*real(kept, policy), *dropped], key=lambda each: each.number))

    retention.decide_retention = decide


def without_claims() -> None:
    """The journal alone determines which epoch and which checkpoint version are the newest."""
    from streamkeeper.model.records import epoch_claim

    epoch_claim.find_newer = lambda known, claims: ""
    from streamkeeper.checkpoints import claims

    claims.leave_claim = lambda claims, claim: None


OF_ATTACKS = {
    "ahead": without_ahead,
    "claims": without_claims,
    "clones": without_clones,
    "continuity": without_continuity,
    "input-names": without_input_names,
    "input-files": without_input_files,
    "installation": without_installation,
    "local-paths": without_local_paths,
    "named-sources": without_named_sources,
    "names": without_names,
    "old-input": without_old_input,
    "order": without_order,
    "output-records": without_output_records,
    "outputs": without_asking_outputs,
    "owners": without_owners,
    "release-confs": without_release_confs,
    "reservation": without_reservation,
    "roots": without_roots,
    "seen-files": without_seen_files,
    "servers": without_servers,
    "unattended": lambda: None,
}
"""Maps a name to its switch; ``unattended`` switches nothing off, because a user requests it with options: a comparison
that allows every difference, and every risk accepted.
"""
