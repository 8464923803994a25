"""Switches of a job whose checkpoints are in a bucket, behind a proxy that refuses requests and drops answers."""

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
"""The share of all requests that are answered 503, and the share of writes whose answer is lost."""


class BucketResult(CaseResult, frozen=True, kw_only=True):
    """The result of a case; ``checkpoints`` is the URL of the checkpoints, ``faults`` the number of faults that the
    proxy made during it, by kind.
    """

    checkpoints: str
    faults: dict[str, int]


class BucketStage(SwitchStage):
    """An installation whose checkpoints are in a bucket behind an unreliable connection."""

    calm_s = 240.0
    haste = UNHURRIED
    patience = ("--catch-up-s", "240", "--approve-s", "120")

    def __init__(self, bed: Bed, proxy: FaultProxy) -> None:
        super().__init__(bed)
        self._proxy = proxy

    def play(self, case: str) -> BucketResult:
        """Run a case with the same seeds as on a local disk, and add the faults that the proxy made."""
        before = Counter(self._proxy.made)
        result = super().play(case)
        faults = dict(self._proxy.made - before)
        return BucketResult(**msgspec.structs.asdict(result), checkpoints=self.bed.checkpoints, faults=faults)


@contextmanager
def bucket_bed(root: Path, job_files: list[Path]) -> Iterator[tuple[Bed, FaultProxy]]:
    """Provide a bed in an empty directory with its checkpoints in an empty bucket, and the proxy before the bucket,
    which makes no faults yet.
    """
    with (
        s3_server(root.absolute().with_name(f"{root.name}-s3"), volume_mb=64, volumes=20) as server,
        fault_proxy(server.endpoint) as proxy,
        set_variables({**server.environment, "AWS_ENDPOINT_URL": proxy.endpoint}),
        fresh_bed(root, job_files, f"s3a://{FIRST_BUCKET}/checkpoints") as bed,
    ):
        yield bed, proxy


@contextmanager
def in_a_bucket(root: Path) -> Iterator[BucketStage]:
    """Open a stage on a fresh installation, with faults from the first request on."""
    with bucket_bed(root, JOBS) as (bed, proxy):
        proxy.refuse_share, proxy.lose_share = REFUSED, LOST
        yield BucketStage(bed, proxy)
