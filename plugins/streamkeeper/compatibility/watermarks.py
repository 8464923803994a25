"""Rules about watermarks.

The old watermark stays in the checkpoint and still decides which rows are late. Evicted state cannot be recovered, and
stored expiry times do not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from streamkeeper.compatibility.effects import IF_INTENDED, NO_ACTION
from streamkeeper.compatibility.rule import Rule, breaking, note, same_kinds
from streamkeeper.compatibility.shown import change
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import Manifest, Operator, Watermark, is_stateful

_WITHIN = "deduplicate-within-watermark"
_UNUSED = "no effect: no stateful operator uses this watermark"


def eviction_questions(old: Manifest, new: Manifest) -> list[int]:
    """Return the positions, from 0, of the operators for which the verdict depends on whether they have already evicted
    state.
    """
    removed = len(old.delays) > len(new.delays)
    completed = old.output_mode == "append" and new.output_mode == "complete"
    if not (removed or completed or _waits_longer(old, new)) or not same_kinds(old, new):
        return []
    return [
        number
        for number, operator in enumerate(old.operators)
        if evicts(operator, old.delays) and operator.may_have_evicted
    ]


def without_eviction(manifest: Manifest, operator: int) -> Manifest:
    """Return the manifest with a mark that the operator at position ``operator``, from 0, has evicted no state."""
    operators = list(manifest.operators)
    operators[operator] = msgspec.structs.replace(operators[operator], may_have_evicted=False)
    return msgspec.structs.replace(manifest, operators=tuple(operators))


def watermark_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a watermark that was added, removed or moved, or has another delay. Each of these affects the state
    differently.
    """
    if old.watermarks == new.watermarks and old.delays == new.delays:
        return
    evidence = _evidence(old.watermarks, new.watermarks)
    if not is_stateful(old, new):
        hint = f"{NO_ACTION}: the query keeps no state, so a watermark has no effect"
        yield note("watermark-changed", "watermarks", evidence, hint=hint)
    elif not same_kinds(old, new):
        effect = "the effect of the watermark depends on the changed operators: see their findings"
        yield note("watermark-changed", "watermarks", evidence, effect=effect, unconditional=True)
    elif old.format < 2 or new.format < 2:
        yield breaking("watermark-changed", "watermarks", evidence)
    elif new.output_mode == old.output_mode == "complete":
        hint = f"{NO_ACTION}: in complete mode no group is evicted and no row is late"
        yield note("watermark-changed", "watermarks", evidence, hint=hint)
    else:
        yield from _compared(old, new, evidence)


def _evidence(before: Sequence[str], after: Sequence[str]) -> str:
    """Return the evidence from the watermarks that differ; if the number of watermarks differs, from all watermarks."""
    pairs = list(zip(before, after, strict=False)) if len(before) == len(after) else []
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    if differing and sorted(before) == sorted(after):
        return change(list(before), list(after), "column and delay, in the order of the streams")
    sides = ([was for was, _ in differing], [now for _, now in differing]) if differing else (before, after)
    # Two streams may have the same watermark.
    return change(list(dict.fromkeys(sides[0])), list(dict.fromkeys(sides[1])), "column and delay")


def _compared(old: Manifest, new: Manifest, evidence: str) -> Iterator[Finding]:
    before, after = old.delays, new.delays
    if len(before) < len(after) and _starts_with(after, before):
        hint = "check that no row arrives later than this delay: it would be lost"
        yield note("watermark-added", "watermarks", evidence, "win_added_update, dedup_wm_added", hint)
    elif len(before) > len(after):
        judged = [operator for operator in old.operators if evicts(operator, before)]
        if any(operator.may_have_evicted for operator in judged):
            yield breaking(
                "watermark-removed", "watermarks", evidence, "win_wm_removed_late", effect=_effect_on(judged)
            )
        elif judged:
            hint = f"{IF_INTENDED}: no group is ever evicted, so the state grows with every new group"
            yield note("watermark-removed", "watermarks", evidence, "win_removed_update", hint)
        else:
            hint = f"{NO_ACTION}: no state depends on it"
            yield note(
                "watermark-removed", "watermarks", evidence, "join_wm_removed", hint, _UNUSED, unconditional=True
            )
    elif [delay.column for delay in before] != [delay.column for delay in after]:
        yield breaking("watermark-column-changed", "watermarks", evidence)
    elif _waits_longer(old, new):
        yield from _longer(old, evidence)
    elif before != after:
        yield from _shorter(old, evidence)
    else:
        yield note(
            "watermark-changed",
            "watermarks",
            evidence,
            hint="no action is needed, because the column and the delay are the same",
        )


def _effect_on(judged: Sequence[Operator]) -> str:
    """Return the effect if the operators are only deduplications or only joins, whose state has no groups; empty
    otherwise.
    """
    kinds = {operator.kind for operator in judged}
    if kinds <= {_WITHIN, "deduplicate"}:
        return "a late row whose key was already evicted would be written again"
    if kinds == {"join"}:
        return "a late row would miss its matches with rows of the other stream that were already evicted"
    return ""


def _waits_longer(old: Manifest, new: Manifest) -> bool:
    """Whether the columns are the same and at least one delay is longer."""
    before, after = old.delays, new.delays
    same = [delay.column for delay in before] == [delay.column for delay in after]
    return same and any(left.delay_ms < right.delay_ms for left, right in zip(before, after, strict=True))


def _longer(old: Manifest, evidence: str) -> Iterator[Finding]:
    """Report a longer delay. A row that is no longer late would restart an evicted group; if no group has been evicted,
    the delay has no effect.

    A deduplication within the watermark has stored an expiry time with each key, which was computed with the old delay.
    """
    judged = [operator for operator in old.operators if evicts(operator, old.delays) or operator.kind == "deduplicate"]
    if any(operator.may_have_evicted or operator.kind == _WITHIN for operator in judged):
        measured = "win_delay_up_late"
        yield breaking("watermark-delay-increased", "watermarks", evidence, measured, effect=_effect_on(judged))
    elif judged:
        hint = f"{NO_ACTION}: no group has been evicted so far, so no late row can restart one"
        yield note("watermark-delay-increased", "watermarks", evidence, "win_delay_up", hint)
    else:
        hint = f"{NO_ACTION}: no state depends on it"
        yield note("watermark-delay-increased", "watermarks", evidence, hint=hint, effect=_UNUSED, unconditional=True)


def _shorter(old: Manifest, evidence: str) -> Iterator[Finding]:
    if any(operator.kind == _WITHIN for operator in old.operators):
        yield breaking("watermark-delay-decreased", "watermarks", evidence, "dedup_within_delay")
    else:
        hint = "check that no row arrives later than this delay: it would be lost"
        yield note("watermark-delay-decreased", "watermarks", evidence, "win_delay_down", hint)


def evicts(operator: Operator, delays: tuple[Watermark, ...]) -> bool:
    """Whether an operator evicts state by a watermark.

    True if a key or a join's condition uses the event time. Every window counts as such a use, because an older
    manifest may show only a part of the window's column. Also True for every deduplication within the watermark, for
    every operator whose state Python code keeps, and for operators of an unknown kind.
    """
    if operator.kind == _WITHIN or operator.kind.startswith(("pandas-with-state", "transform-with-state", "unknown")):
        return True
    judged = [*(column.meaning for column in operator.key_columns), operator.detail.get("condition", "")]
    return any(delay.column in text or "window(" in text for delay in delays for text in judged)


def _starts_with(longer: tuple[Watermark, ...], shorter: tuple[Watermark, ...]) -> bool:
    return all(delay in longer for delay in shorter)


RULES: tuple[Rule, ...] = (watermark_changed,)
