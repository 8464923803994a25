"""What stands against each attack, switched off: only negative controls use it.

A module's function is replaced before any other module has taken it by name, so nothing of Streamkeeper may have been
imported that uses it: each function here imports what it changes, and no more.
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
    """A restore asks no output what it holds: nobody has said anything of batches beyond the snapshot."""
    from streamkeeper.operations.jobs import outputs
    from streamkeeper.sinks.contract import OutputAnswer

    outputs.ask = lambda *_arguments: OutputAnswer()


def without_continuity() -> None:
    """Whatever lies in a checkpoint's directory is taken for the checkpoint."""
    from streamkeeper.checkpoints import identity
    from streamkeeper.driver.continuity import Continuity

    identity.find_loss = lambda tree, known: ""
    replace_in(Continuity, check_start=lambda self: None, check_batch=lambda self, batch_id: None)


def without_ahead() -> None:
    """A driver may begin although its output holds batches that its checkpoint does not know."""
    from streamkeeper.driver import epoch

    replace_in(epoch, _refuse_if_ahead=lambda writer, claim, planned: None)


def without_output_records() -> None:
    """Nobody compares an output's own record with what the checkpoint has committed."""
    from streamkeeper.model.protocol import output_history

    output_history.find_output_loss = lambda history, committed, record: ""


def without_owners() -> None:
    """Nobody asks before a takeover whose output it is."""
    from streamkeeper.driver import preflight

    preflight.look_at_owner = lambda job, query, installation: iter(())


def without_roots() -> None:
    """A checkpoint is looked for where the variables of the moment say, whatever root was recorded with it."""
    from streamkeeper.model.records.job_state import JobState
    from streamkeeper.operations.jobs import registered

    replace_in(JobState, root_of=lambda self, query, version, root: root)
    registered.recorded_findings = lambda installation, state: {}


def without_reservation() -> None:
    """A restore takes away what lies in its place, whoever wrote it."""
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
        """In the place of what is there."""
        target = installation.checkpoint(state, query, version)
        assert isinstance(target, LocalTree)
        if target.root.exists():
            shutil.move(target.root, target.root.with_name(f".{version}.aside"))
        restore(catalogue or Catalogue(installation.snapshots, snapshot.series), snapshot, target, show=show)

    version_acts.fill_version = fill


def without_installation() -> None:
    """A copy is taken for the one that it was made of."""
    from streamkeeper.model.records.installation_record import InstallationRecord
    from streamkeeper.registry import installations
    from streamkeeper.runners.process_tree import Mark

    installations.find_misplaced = lambda store, installation, home: ""
    replace_in(InstallationRecord, is_mine=lambda self, recorded: True)
    replace_in(Mark, excludes=lambda self, environment: False)


def without_named_sources() -> None:
    """Nobody looks for the files that a batch is to read."""
    from streamkeeper.checkpoints.input_files import FileLook
    from streamkeeper.inspection import input_look

    input_look.missing_files = lambda query, checkpoint, batch: FileLook(total=0)


def without_input_files() -> None:
    """Nobody looks whether input files are still there."""
    from streamkeeper.checkpoints import input_files

    input_files.look_for_files = lambda paths, *, unseen=None: input_files.FileLook(total=0)


def without_old_input() -> None:
    """Files that are too old for Spark are not told from those that it has read."""
    from streamkeeper.checkpoints import unread_files

    unread_files.too_old = lambda unread, newest_ms, max_age_ms: set()


def without_seen_files() -> None:
    """Any other place is taken for one of which each file is read once."""
    from streamkeeper.checkpoints import seen_files

    seen_files.would_read_all = lambda *_: True


def without_clones() -> None:
    """A rehearsal runs the job's own plan, with its source's own options."""
    from streamkeeper.inspection import clones

    clones.clone_of = lambda df: df


def without_input_names() -> None:
    """Nobody asks which files Spark would read twice."""
    from streamkeeper.checkpoints import open_input
    from streamkeeper.jvm import batch_files

    batch_files.check_files = lambda batch, number: None
    open_input.doubling_files = lambda tree, batch: []


def without_local_paths() -> None:
    """A URL is a path; a file's own is its path still, for the site's places are told by such."""
    from streamkeeper import locations

    locations.local_path = lambda what, location, *, hint="": Path(location.removeprefix("file://")).absolute()


def without_release_confs() -> None:
    """A release sets whatever conf it likes."""
    from streamkeeper.model.settings import release_conf

    release_conf.check_release_conf = lambda conf, allowed=(): None
    release_conf.check_described_confs = lambda confs: None


def without_names() -> None:
    """Whatever has the name of an internal table or directory is taken for it."""
    from streamkeeper.sinks import file_serving, versions_of_table

    versions_of_table.find_staging_table = lambda connection, table: None
    versions_of_table.is_reserved = lambda table: False
    file_serving.is_shadow = lambda root, version: True


def without_servers() -> None:
    """An output is known by its URL's host, port and path alone."""
    from streamkeeper.sinks import databases

    databases.server_of = lambda url: ""


def without_order() -> None:
    """Snapshots are kept by their age as of now, as the clock says."""
    import pendulum

    from streamkeeper.snapshots import retention

    real = retention.decide_retention

    def decide(candidates: Collection[Candidate], policy: Policy) -> tuple[RetentionDecision, ...]:
        """What is older than the days kept goes, and what is of the future."""
        now = pendulum.now("UTC").timestamp()
        ages = {each.number: (now - each.taken_at.timestamp()) / (24 * 3600) for each in candidates}
        kept = [each for each in candidates if 0 <= ages[each.number] <= policy.daily]
        gone = [each for each in candidates if each not in kept]
        dropped = [retention.RetentionDecision(number=each.number, keep=False, reasons=("too old",)) for each in gone]
        return tuple(sorted([*real(kept, policy), *dropped], key=lambda each: each.number))

    retention.decide_retention = decide


def without_claims() -> None:
    """The journal alone says which epoch and which checkpoint version are the newest."""
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
"""``unattended`` is what a person asks for in options: a comparison that allows everything, and every risk taken."""
