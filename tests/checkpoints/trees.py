"""The makers of checkpoints, under the name that the tests know."""

from __future__ import annotations

from harness.checkpoint_files import CONF, OPERATOR, QUERY_ID, Tree, state_id

__all__ = ["CONF", "OPERATOR", "QUERY_ID", "Tree", "state_id"]
