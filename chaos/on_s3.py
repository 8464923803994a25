"""Switches of a job whose checkpoints are in a bucket, behind a proxy that refuses requests and loses answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from chaos.cases import CaseResult
from chaos.switch_runs import JOBS
from chaos.switching import UNHURRIED, SwitchStage
from harness.bed import Bed, fresh_bed
from harness.fault_proxy import FaultProxy, fault_proxy
from harness.s3_server import FIRST_BUCKET, s3_server
from harness.variables import set_variables

REFUSED = LOST = 0.05
"""The shares of all requests that are answered 503, and of those that write whose answer gets lost."""


class BucketResult(CaseResult, frozen=True, kw_only=True):
    """``checkpoints``: where they were; ``faults``: how many the proxy made meanwhile, by kind."""

    checkpoints: str
    faults: dict[str, int]


class BucketStage(SwitchStage):
    """A site whose checkpoints are in a bucket that is hard to reach."""

    calm_s = 240.0
    haste = UNHURRIED
    patience = ("--catch-up-s", "240", "--approve-s", "120")

    def __init__(self, bed: Bed, proxy: FaultProxy) -> None:
        super().__init__(bed)
        self._proxy = proxy

    def play(self, case: str) -> BucketResult:
        """As on a disk, for the same seeds."""
        before = Counter(self._proxy.made)
        result = super().play(case)
        faults = dict(self._proxy.made - before)
        return BucketResult(**msgspec.structs.asdict(result), checkpoints=self.bed.checkpoints, faults=faults)


@contextmanager
def bucket_bed(root: Path, job_files: list[Path]) -> Iterator[tuple[Bed, FaultProxy]]:
    """A bed in an empty directory with its checkpoints in an empty bucket, and the proxy before that: no faults yet."""
    with (
        s3_server(root.absolute().with_name(f"{root.name}-s3"), volume_mb=64, volumes=20) as server,
        fault_proxy(server.endpoint) as proxy,
        set_variables({**server.environment, "AWS_ENDPOINT_URL": proxy.endpoint}),
        fresh_bed(root, job_files, f"s3a://{FIRST_BUCKET}/checkpoints") as bed,
    ):
        yield bed, proxy


@contextmanager
def in_a_bucket(root: Path) -> Iterator[BucketStage]:
    """A stage on a fresh site, with faults from the first request on."""
    with bucket_bed(root, JOBS) as (bed, proxy):
        proxy.refuse_share, proxy.lose_share = REFUSED, LOST
        yield BucketStage(bed, proxy)
