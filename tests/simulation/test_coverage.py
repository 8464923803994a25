"""Tests that the simulation's coverage names what a schedule reached by the text of the code, so that what is missing
can be listed.
"""

from __future__ import annotations

from chaos.failpoints import named_points
from harness.simulation.coverage import Covered, every_decision, every_end, every_pair
from harness.simulation.plan import draw
from harness.simulation.playing import play


def test_every_reached_decision_end_and_pair_is_listed_as_possible() -> None:
    """Every decision, end and pair that 24 schedules report is on the list of possible ones, and each of these kinds is
    reported at least once, with more than 50 named failpoints.
    """
    covered = Covered()
    for seed in range(1, 25):
        covered |= play(draw(seed)).covered
    # A repeated request has no pair of its own, and points of a step and an action are known only once reached.
    assert covered.decisions
    assert covered.decisions <= every_decision()
    assert covered.ends
    assert covered.ends <= every_end()
    assert covered.pairs
    assert {pair for pair in covered.pairs if not pair.endswith("repeat")} <= every_pair()
    assert len(covered.points & named_points()) > 50


def test_both_branches_of_a_conditional_expression_count_as_decisions() -> None:
    """The two branches of one conditional expression, which lead an answer to ``mark done`` or to ``give up``, count as
    two decisions.
    """
    assert {"approval_steps.await_answer 4", "approval_steps.await_answer 5"} <= every_decision()
