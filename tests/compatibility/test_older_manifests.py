"""Tests of manifests whose digests an older version made: they are not taken as equal without a reason."""

from __future__ import annotations

import msgspec

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.compatibility.older_manifests import as_described_before, in_one_format
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest, StateColumn, without_context
from tests.compatibility.manifests import STATEFUL

BELOW = "below/0 rate"


def described(digest: str, *, digests: int, context: str, plan: str = "Aggregate") -> Manifest:
    changes = {"functions": {BELOW: digest}, "context": context, "digests": digests, "plan": plan}
    return msgspec.structs.replace(STATEFUL, **changes)


def test_digests_of_different_definitions_match_in_an_equal_context() -> None:
    """Digests of two different definitions count as the same code if the context, everything that the code was made
    from, is equal.
    """
    old = described("a", digests=1, context="c")
    assert find_changes(old, described("b", digests=2, context="c")) == ()


def test_digests_of_different_definitions_give_backup_in_different_contexts() -> None:
    """Digests of two definitions in different or unknown contexts give the verdict BACKUP."""
    old = described("a", digests=1, context="c")
    for context in ("d", ""):
        assert verdict_of(find_changes(old, described("b", digests=2, context=context))) is Verdict.BACKUP


def test_different_digests_of_one_definition_give_backup() -> None:
    """Negative control: with the same digest definition, different digests give the verdict BACKUP even in an equal
    context.
    """
    old = described("a", digests=2, context="c")
    assert verdict_of(find_changes(old, described("b", digests=2, context="c"))) is Verdict.BACKUP


def test_a_manifest_described_again_at_a_restart_matches_the_older_one() -> None:
    """A manifest described anew for a restart matches the one that an older version stored, but not if the plan or a
    function's name differs.
    """
    stored = described("a", digests=1, context="")
    told, kept = as_described_before(described("b", digests=2, context="c"), stored)
    assert msgspec.structs.replace(told, context="") == kept
    told, kept = as_described_before(described("b", digests=2, context="c", plan="Join"), stored)
    assert msgspec.structs.replace(told, context="") != kept
    other = msgspec.structs.replace(described("b", digests=2, context="c"), functions={"below/0 price": "b"})
    assert as_described_before(other, stored) == (other, stored)


def test_fields_that_older_versions_did_not_record_are_ignored_at_a_restart() -> None:
    """Fields that an older version did not record make no difference when a release is restarted. Negative control: a
    column's changed expression does.
    """
    column = StateColumn(meaning="upper(source 0.shop)", type="string", name="shop")
    stored = msgspec.structs.replace(STATEFUL, columns=(column,))
    now = msgspec.structs.replace(
        stored,
        columns=(msgspec.structs.replace(column, functions=("above/0 rate",)),),
        output_rows=("x",),
        output_shape=("y",),
        sink_columns=("shop",),
        sink_reads={"shop": "job.py:3"},
    )
    assert without_context(now) == without_context(stored)
    other = msgspec.structs.replace(stored, columns=(msgspec.structs.replace(column, meaning="source 0.shop"),))
    assert without_context(other) != without_context(stored)


def test_intervals_in_different_units_are_equal_in_output_columns() -> None:
    """An interval in different units is equal in output columns and their filters; a different length is not."""

    def shown(length: str) -> Manifest:
        moved = f"timestampaddinterval(source 0.ts, {length}, in session)"
        column = StateColumn(meaning=moved, type="timestamp", name="until")
        changes = {"columns": (column,), "output_rows": (f"lessthan(source 0.ts, {moved})",)}
        return msgspec.structs.replace(STATEFUL, **changes)

    old, same, other = map(shown, ("60000000:interval minute", "60000000:interval second", "61000000:interval second"))
    before, after = in_one_format(old, same)
    assert before == after
    before, after = in_one_format(old, other)
    assert (before.columns, before.output_rows) != (after.columns, after.output_rows)
