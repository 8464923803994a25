"""What a seed of each campaign is of."""

from __future__ import annotations

import pytest

from bench.campaign.broker_stage import BrokerStage
from bench.campaign.on_hdfs import HdfsStage
from bench.campaign.on_nodes import NodeStage
from bench.campaign.on_s3 import BucketStage
from bench.campaign.recovering import RecoverStage
from bench.campaign.switching import SwitchStage


@pytest.mark.parametrize("stage", [SwitchStage, RecoverStage, BrokerStage, BucketStage, HdfsStage, NodeStage])
def test_a_seed_is_drawn_from_the_scenarios_of_its_own_stage(stage: type[SwitchStage]) -> None:
    """A stage with scenarios of its own that draws from another's ends its campaign at the first other one."""
    assert stage.drawn
    assert {*stage.drawn} <= stage.scenarios.keys()
