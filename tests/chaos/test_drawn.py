"""From which scenarios a campaign's seeds are drawn."""

from __future__ import annotations

import pytest

from chaos.broker_stage import BrokerStage
from chaos.on_hdfs import HdfsStage
from chaos.on_nodes import NodeStage
from chaos.on_s3 import BucketStage
from chaos.recovering import RecoverStage
from chaos.switching import SwitchStage


@pytest.mark.parametrize("stage", [SwitchStage, RecoverStage, BrokerStage, BucketStage, HdfsStage, NodeStage])
def test_a_seed_is_drawn_from_the_scenarios_of_its_own_stage(stage: type[SwitchStage]) -> None:
    """Every stage draws its seeds only from its own scenarios; drawing a different one would stop its campaign."""
    assert stage.drawn
    assert {*stage.drawn} <= stage.scenarios.keys()
