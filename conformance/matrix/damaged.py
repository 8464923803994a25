"""Cases with a damaged checkpoint and an unchanged job."""

from __future__ import annotations

from conformance.matrix.case import ALL, BOTH, STATELESS, Case, Job, Outcome, in_group

SUM = Job('s.groupBy("k").agg(F.sum("x").alias("s"))')
SELECT = Job('s.select("k", "x")', mode="append")


def _damaged(
    name: str, what: str, damage: str, *, job: Job = SUM, cause: str = "damage", providers: tuple[str, ...] = BOTH
) -> Case:
    return Case(name, what, job, job, cause, damage=damage, providers=STATELESS if job is SELECT else providers)


CASES = in_group(
    "damage",
    _damaged("ckpt_all_offsets_gone_agg", "offsets/ emptied, rest kept", "offsets_gone"),
    _damaged("ckpt_sources_gone_agg", "sources/0 deleted", "sources_gone"),
    _damaged("ckpt_no_last_offset_stateless", "last offset deleted, its commit kept", "last_offset_gone", job=SELECT),
    _damaged("ckpt_no_last_offset_agg", "last offset deleted, its commit kept", "last_offset_gone", providers=("v2",)),
    Case(
        "ckpt_no_last_commit",
        "last commit deleted: its batch runs again",
        SUM,
        SUM,
        "none",
        damage="last_commit_gone",
        providers=ALL,
        truth=(Outcome.CORRECT, "what every crash leaves: an open batch, which runs again under its own number"),
    ),
    _damaged("ckpt_no_metadata_stateless", "metadata deleted", "metadata_gone", job=SELECT),
    _damaged("ckpt_metadata_empty", "metadata empty", "metadata_empty", providers=("rocksdb",)),
    _damaged(
        "ckpt_offsets_commits_gone_stateless", "offsets/ and commits/ emptied", "offsets_commits_gone", job=SELECT
    ),
    _damaged("ckpt_last_offset_commit_gone", "last offset and commit gone", "last_offset_commit_gone", job=SELECT),
    _damaged("ckpt_sources_last_gone_stateless", "last entry of sources/0 deleted", "last_source_gone", job=SELECT),
    _damaged("ckpt_no_middle_offset", "offsets/0 deleted, offsets/1 kept", "first_offset_gone", job=SELECT),
    _damaged(
        "ckpt_no_middle_offset_no_last_commit",
        "offsets/0 and commits/1 deleted",
        "first_offset_last_commit_gone",
        job=SELECT,
    ),
    _damaged(
        "ckpt_no_middle_commit", "commits/0 deleted, commits/1 kept", "first_commit_gone", job=SELECT, cause="none"
    ),
    _damaged("ckpt_offset_empty", "last offset empty", "last_offset_empty", job=SELECT),
    _damaged("ckpt_offset_truncated", "last offset cut in half", "last_offset_half", job=SELECT),
    _damaged("ckpt_offset_version", "last offset of an unknown version", "last_offset_version", job=SELECT),
    _damaged("ckpt_offset_ahead", "logOffset ahead of the source's log", "offset_ahead", job=SELECT),
    _damaged("ckpt_offset_behind", "logOffset edited back by one", "offset_behind", job=SELECT),
    _damaged("ckpt_commit_empty", "last commit empty", "last_commit_empty", job=SELECT),
    _damaged(
        "ckpt_metadata_newid", "metadata id replaced by another", "metadata_new_id", cause="none", providers=("hdfs",)
    ),
    _damaged("ckpt_state_gone", "state/ deleted", "state_gone"),
    _damaged("ckpt_state_op_gone", "state/0 deleted", "state_operator_gone"),
    _damaged(
        "ckpt_state_first_delta_gone", "first delta, zip or changelog of every partition deleted", "state_first_gone"
    ),
    _damaged("ckpt_state_part_gone", "state/0/1 deleted", "state_partition_gone", providers=ALL),
    _damaged("ckpt_state_meta_gone", "state/0/_metadata deleted", "state_metadata_gone", cause="none"),
    _damaged("ckpt_state_zero", "last state file of each partition empty", "state_last_empty", providers=ALL),
    _damaged("ckpt_state_last_gone", "last state file of one partition deleted", "state_last_gone", providers=ALL),
    _damaged("ckpt_crc_files_gone", "all .crc files deleted", "crc_gone", cause="none"),
    _damaged("ckpt_rewind_one", "rewind: offsets/1, commits/1 and sources/0/1 deleted", "rewind_one"),
    _damaged("ckpt_copied", "checkpoint copied to another path", "copied", cause="none"),
)
