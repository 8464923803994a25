"""What a seed of each campaign is of."""

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
    """A stage with scenarios of its own that draws from another's ends its campaign at the first other one."""
    assert stage.drawn
    assert {*stage.drawn} <= stage.scenarios.keys()
