"""Which Kafka topics the offsets of a restored checkpoint version belong to."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.operations.recovery.restoring import restore_version
from tests.operations.registered_job import JOB, QUERY, Registered


@pytest.mark.parametrize(("committed", "belongs"), [(7, "old"), (6, "new")])
def test_a_restored_version_has_the_topics_of_its_snapshot(tmp_path: Path, committed: int, belongs: str) -> None:
    """A restored version has the topics that its snapshot was read from: the old ones if the snapshot's batch 7 was
    committed before the query continued in a recreated topic, the new ones if it is the first batch after that.
    """
    job = Registered(tmp_path)
    job.record(replace(job.epoch("v0001", 2), topics={"sales": "old"}))
    job.record(replace(job.epoch("v0001", 3), topics={"sales": "new"}, committed=committed))
    job.report(committed=7)
    job.take()
    job.write_table(7)
    restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    state = job.installation.journal(JOB, "test").state()
    assert state.current[QUERY] == "v0002"
    assert state.offset_topics(QUERY, "v0001") == {"sales": "new"}
    assert state.offset_topics(QUERY, "v0002") == {"sales": belongs}
