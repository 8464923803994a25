"""Turns checkpoint damage into findings: unsafe damage stops a deploy; damage measured as harmless is a note."""

from __future__ import annotations

import re
from collections.abc import Iterable

from streamkeeper.compatibility.rule import APPROVE
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.protocol.damage import Damage

_MEASURED = {
    "checksums-missing": ("ckpt_crc_files_gone",),
    "commit-empty": ("ckpt_commit_empty",),
    "commit-missing-in-the-middle": ("ckpt_no_middle_commit",),
    "last-offset-missing": ("ckpt_no_last_offset_stateless",),
    "metadata-missing": ("ckpt_no_metadata_stateless",),
    "offset-empty": ("ckpt_offset_empty",),
    "offset-missing-in-the-middle": ("ckpt_no_middle_offset", "ckpt_no_middle_offset_no_last_commit"),
    "offsets-and-commits-gone": ("ckpt_offsets_commits_gone_stateless",),
    "offsets-gone": ("ckpt_all_offsets_gone_agg",),
    "rewound": ("ckpt_rewind_one",),
    "source-log-entry-missing": ("ckpt_sources_last_gone_stateless",),
    "source-log-missing": ("ckpt_sources_gone_agg",),
    "source-offset-ahead": ("ckpt_offset_ahead",),
    "state-file-empty": ("ckpt_state_zero",),
    "state-file-missing": ("ckpt_state_first_delta_gone",),
    "state-metadata-missing": ("ckpt_state_meta_gone",),
    "state-missing": ("ckpt_state_gone",),
    "state-operator-missing": ("ckpt_state_op_gone",),
    "state-partition-missing": ("ckpt_state_part_gone",),
}


NOTHING_TO_DO, _RESTORE = "nothing to do", "restore the checkpoint, or "
_ASKED = (
    "Approve if nobody removed or edited offsets by hand. Otherwise restore the checkpoint, because these files would "
    "be read twice"
)
_OF_RECOVER = "streamkeeper recover lists what each option loses or duplicates"
_WITHOUT_RECOVER = frozenset({"newer-format", "not-a-checkpoint"})
"""Kinds of damage that do not consist of lost or changed files."""
_AMBIGUOUS = frozenset({"unplanned-source-entry"})
"""Kinds of damage that have two possible causes: a crash, or a removal of the last batch from both logs, which would
duplicate that batch. An approval is therefore required.
"""


def damage_findings(damages: Iterable[Damage]) -> tuple[Finding, ...]:
    """Return one finding per damage, in order. A finding is FATAL unless a start with that damage was measured as
    harmless.
    """
    return tuple(
        Finding(
            rule=f"checkpoint-{damage.shape}",
            severity=_severity(damage),
            where=damage.where,
            effect=damage.on_start,
            unconditional=True,
            evidence=damage.evidence,
            hint=_hint(damage),
            reference=_reference(damage.shape),
        )
        for damage in damages
    )


def _hint(damage: Damage) -> str:
    """Return the hint for a damage. The hint covers only this damage; the whole verdict may still require an
    approval.
    """
    if damage.shape in _AMBIGUOUS:
        return f"{APPROVE}. {_ASKED}"
    if damage.hint.startswith(_RESTORE):
        return f"{damage.hint}: {_OF_RECOVER}"
    if not damage.safe and damage.shape not in _WITHOUT_RECOVER:
        return f"{damage.hint}. If you have no copy, {_OF_RECOVER}"
    return re.sub(f"^{NOTHING_TO_DO}", "no action is needed for this alone", damage.hint)


def _severity(damage: Damage) -> Severity:
    if damage.shape in _AMBIGUOUS:
        return Severity.OPAQUE
    return Severity.NOTE if damage.safe else Severity.FATAL


def _reference(shape: str) -> str:
    measured = _MEASURED.get(shape, ())
    return f"measured: {', '.join(measured)}" if measured else ""
