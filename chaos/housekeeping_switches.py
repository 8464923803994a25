"""The protections of housekeeping that negative controls switch off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.replacing import replace_in

if TYPE_CHECKING:
    from streamkeeper.checkpoints.prune_plan import Pruned, PrunePlan
    from streamkeeper.checkpoints.trees import Tree
    from streamkeeper.operations.jobs.installation import Installation
    from streamkeeper.operations.recovery.lost_journals import Rebuild


def without_needed_files() -> None:
    """A prune deletes one file of the batch that a rollback needs."""
    from streamkeeper.checkpoints import unneeded_files

    real = unneeded_files._needed

    def needed(tree: Tree, keep_batches: int) -> set[str]:
        """Return the needed files except one state file."""
        found = real(tree, keep_batches)
        return found - {max(path for path in found if path.startswith("state/") and "_metadata" not in path)}

    replace_in(unneeded_files, _needed=needed)


def without_metadata_first() -> None:
    """Removing a version deletes its metadata last, so that what remains after a kill looks like a version."""
    from streamkeeper.checkpoints import removal
    from streamkeeper.checkpoints.publishing import METADATA

    def remove(tree: Tree, plan: PrunePlan) -> Pruned:
        """Delete every other file first, then the metadata."""
        rest = [file for file in plan.files if file.path != METADATA]
        kept = tree.delete(removal._one_by_one(rest))
        kept = kept or tree.delete([METADATA])
        return removal._pruned(plan.files, kept, [])

    replace_in(removal, _remove_version=remove)


def without_installation_first() -> None:
    """A rebuild records journals before it records that the store belongs to the installation."""
    from streamkeeper.cli import registries
    from streamkeeper.registry.installations import take_back
    from streamkeeper.system.crash_points import crash_point

    def record(installation: Installation, rebuild: Rebuild, *, by: str, reason: str) -> list[str]:
        """Write the two records in the opposite order."""
        for plan in rebuild.plans:
            installation.journal(plan.job, f"rebuild:{by}").append(lambda _, plan=plan: plan.record)  # type: ignore[misc]
        crash_point("rebuild.installation.before")
        take_back(installation.store, installation.settings.home, rebuild.installation, by=by, reason=reason)
        return [plan.job for plan in rebuild.plans]

    replace_in(registries, record_rebuild=record)


OF_HOUSEKEEPING = {
    "needed-files": without_needed_files,
    "metadata-first": without_metadata_first,
    "installation-first": without_installation_first,
}
