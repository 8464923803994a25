"""Every kind of attack, with the protections that its negative control switches off."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import msgspec

from chaos.attacks.attack import Attack
from chaos.attacks.on_checkpoints import elsewhere, lost_checkpoint, restore_ahead, two_restores
from chaos.attacks.on_inputs import cleaning_clones, pattern_names
from chaos.attacks.on_lost_outputs import lost_output, two_jobs
from chaos.attacks.on_missing_inputs import hdfs_input, old_files
from chaos.attacks.on_older_stores import older_store
from chaos.attacks.on_outputs import other_server, taken_names
from chaos.attacks.on_places import copied_home, missing_input, moved_input, urls
from chaos.attacks.on_requests import confs, differing_rebuild, used_again, wrong_clock


class Kind(msgspec.Struct, frozen=True):
    """A kind of attack; ``off`` is empty when only the project's tests have a negative control of it."""

    attack: Callable[[Attack, random.Random], None]
    off: str = ""


KINDS = {
    "restore-ahead": Kind(restore_ahead, "outputs"),
    "lost-checkpoint": Kind(lost_checkpoint, "continuity"),
    "lost-output": Kind(lost_output, "output-records"),
    "two-jobs": Kind(two_jobs, "owners"),
    "elsewhere": Kind(elsewhere, "continuity+ahead+roots"),
    "two-restores": Kind(two_restores, "reservation"),
    "copied-home": Kind(copied_home, "installation"),
    "differing-rebuild": Kind(differing_rebuild, "unattended"),
    "used-again": Kind(used_again),
    "wrong-clock": Kind(wrong_clock, "order"),
    "urls": Kind(urls, "local-paths"),
    "confs": Kind(confs, "release-confs"),
    "missing-input": Kind(missing_input, "named-sources"),
    "moved-input": Kind(moved_input, "seen-files"),
    "taken-names": Kind(taken_names, "names"),
    "other-server": Kind(other_server, "servers"),
    "older-store": Kind(older_store, "claims"),
    "hdfs-input": Kind(hdfs_input, "input-files"),
    "old-files": Kind(old_files, "old-input"),
    "cleaning-clones": Kind(cleaning_clones, "clones"),
    "pattern-names": Kind(pattern_names, "input-names"),
}
"""The kinds, in the order of the guarantees that they attack."""

JOBS = [Path(__file__).parents[1] / "jobs/ledgers.py"]
