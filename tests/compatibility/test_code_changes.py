"""Evidence about code names the function or value that changed, with both texts and its line."""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.compatibility.code_changes import NO_PART, NO_RECORD, NOT_IN_RECORD, code_change
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.finding import Finding
from streamkeeper.model.manifest import IMPORT, MOST_PARTS, CodePart, Manifest, without_context
from streamkeeper.model.redaction import redact_value
from tests.compatibility.manifests import STATEFUL, changed

PLUS = "below/0 plus"


def part(text: str, line: int, file: str = "job.py", **fields: object) -> CodePart:
    """A piece of source whose lines follow one another."""
    lines = tuple(range(line, line + text.count("\n") + 1))
    return CodePart(**{"digest": text, "text": text, "place": f"{file}:{line}", "lines": lines, **fields})  # type: ignore[arg-type]


PARTS = {
    "job.plus": part("def plus(x):\n    return rate(x) + 1", 5),
    "helpers.rate": part("def rate(x):\n    y = x\n    return y * 2", 12, "helpers.py"),
    "settings.LIMIT": part("10", 3, "settings.py"),
}


def manifest(digest: str, **changes: CodePart | None) -> Manifest:
    """A query whose function reaches the parts, some of them changed or gone."""
    given = {name.replace("__", "."): value for name, value in changes.items()}
    parts = {name: value for name, value in {**PARTS, **given}.items() if value is not None}
    written = {PLUS: "job.py:5"}
    return changed(STATEFUL, functions={PLUS: digest}, parts=parts, reached={PLUS: tuple(parts)}, written=written)


OLD = manifest("a")


def finding(new: Manifest, old: Manifest = OLD) -> Finding:
    [found] = find_changes(old, new)
    assert found.rule == "code-in-state-changed"
    return found


@pytest.mark.parametrize(
    ("changes", "evidence", "line"),
    [
        (
            {"helpers__rate": part("def rate(x):\n    y = x\n    return y * 3", 14, "helpers.py")},
            "helpers.rate (helpers.py:16): return y * 2 -> return y * 3",
            "helpers.py:16",
        ),
        (
            {"settings__LIMIT": part("20", 4, "settings.py")},
            "settings.LIMIT (settings.py:4): 10 -> 20",
            "settings.py:4",
        ),
        (
            {"job__plus": part("@scaled(2)\ndef plus(x):\n    return rate(x) + 1", 5)},
            "job.plus (job.py:5): nothing -> @scaled(2)",
            "job.py:5",
        ),
        (
            {"helpers__limit": part("def limit(x):\n    return min(x, 9)", 20, "helpers.py")},
            "helpers.limit (helpers.py:20) added",
            "helpers.py:20",
        ),
        ({"settings__LIMIT": None}, "settings.LIMIT (settings.py:3) removed", "job.py:5"),
        (
            {"helpers__rate": part("def rate(x):\n    z = x + 1\n    return z * 3", 12, "helpers.py")},
            "helpers.rate (helpers.py:13): y = x -> z = x + 1 and 1 more line",
            "helpers.py:13",
        ),
        (
            {
                "helpers__rate": None,
                "pricing__rate": part("def rate(x):\n    y = x\n    return y * 3", 2, "pricing.py"),
            },
            "helpers.rate -> pricing.rate (pricing.py:4): return y * 2 -> return y * 3",
            "pricing.py:4",
        ),
        (
            {
                "job__plus": part("def plus(x):\n    return rate(x) + 2", 5),
                "helpers__rate": part("def rate(x):\n    y = x\n    return y * 3", 12, "helpers.py"),
                "settings__LIMIT": part("20", 3, "settings.py"),
                "settings__RATE": part("7", 4, "settings.py"),
            },
            "helpers.rate (helpers.py:14): return y * 2 -> return y * 3; job.plus (job.py:6): return rate(x) + 1 -> "
            "return rate(x) + 2; settings.LIMIT (settings.py:3): 10 -> 20 and 1 more",
            "helpers.py:14",
        ),
    ],
    ids=["helper", "constant", "decorator", "added", "removed", "two lines", "moved and changed", "four"],
)
def test_the_evidence_names_what_changed_and_nothing_else(
    changes: dict[str, CodePart | None], evidence: str, line: str
) -> None:
    """The function that Spark calls is named only if its own text differs."""
    found = finding(manifest("b", **changes))
    assert found.evidence == evidence
    assert found.line == line
    assert len(evidence) <= 200 or " -> " in evidence


def test_a_part_that_only_moved_is_not_named() -> None:
    """Another line or another module of the same text is no change; the change beside it is."""
    moved = {"helpers__rate": None, "pricing__rate": part(PARTS["helpers.rate"].text, 40, "pricing.py")}
    found = finding(manifest("b", **moved, settings__LIMIT=part("20", 3, "settings.py")))
    assert found.evidence == "settings.LIMIT (settings.py:3): 10 -> 20"
    assert finding(manifest("b", **moved)).evidence == NO_PART


def test_a_file_is_named_only_where_no_code_differs() -> None:
    """A module that is read as a file contains the function that is named already."""
    file = part("", 0, digest="new", place="rates.json", beside=True)
    old = manifest("a", rates__json=part("", 0, digest="old", place="rates.json", beside=True))
    assert finding(manifest("b", rates__json=file), old).evidence == "rates.json changed"
    both = manifest("b", rates__json=file, settings__LIMIT=part("20", 3, "settings.py"))
    assert finding(both, old).evidence == "settings.LIMIT (settings.py:3): 10 -> 20"


def test_what_an_import_does_is_named_by_its_module() -> None:
    """It runs code that no function of the finding calls."""
    runs = "scaled(2)", "scaled(3)"
    old, new = (
        manifest(str(number), **{f"rules{IMPORT}": part(text, 17, "rules.py", beside=True)})
        for number, text in enumerate(runs)
    )
    assert finding(new, old).evidence == "import of rules (rules.py:17): scaled(2) -> scaled(3)"


def test_long_lines_are_cut_around_the_difference() -> None:
    """The change is shown, whatever stands around it."""
    before, after = (f"def plus(x):\n    return {'x + ' * 40}{last}{' + x' * 40}" for last in ("one", "two"))
    found = finding(manifest("b", job__plus=part(after, 5)), manifest("a", job__plus=part(before, 5)))
    assert "one" in found.evidence.split(" -> ")[0]
    assert "two" in found.evidence.split(" -> ")[1]
    assert len(found.evidence) < 200


def test_without_a_record_of_parts_the_evidence_says_so() -> None:
    """A manifest of an older release has none; the line is the function's."""
    stored = from_json(to_json(changed(OLD, parts={}, reached={})), Manifest, where="stored")
    for old, new in ((stored, manifest("b")), (OLD, changed(manifest("b"), parts={}, reached={}))):
        assert code_change(PLUS, old, new) == (NO_RECORD, "job.py:5")
    bare = to_json(stored).replace(b',"parts":{},"reached":{}', b"")
    assert from_json(bare, Manifest, where="bare") == stored


def test_a_part_beyond_the_record_is_not_named_as_added_or_removed() -> None:
    """Of more parts the first are on record: one that comes pushes the last out."""
    many = {f"m.f{number:04}": part(f"{number}", number + 1) for number in range(MOST_PARTS + 1)}
    old, new = (
        changed(OLD, functions={PLUS: digest}, parts=parts, reached={PLUS: tuple(parts)})
        for digest, parts in (
            ("a", dict(list(many.items())[:MOST_PARTS])),
            ("b", {"m.aaa": part("1", 9), **dict(list(many.items())[: MOST_PARTS - 1])}),
        )
    )
    assert code_change(PLUS, old, new).evidence == "m.aaa (job.py:9) added"
    same = changed(new, parts=old.parts, reached=old.reached)
    assert code_change(PLUS, old, same).evidence == NOT_IN_RECORD


def test_parts_are_compared_by_no_rule() -> None:
    """They only say where: two builds of one query share the rest, and differ in them without a finding."""
    other = manifest("a", settings__LIMIT=part("20", 3, "settings.py"))
    assert find_changes(OLD, other) == ()
    assert without_context(OLD) == without_context(other)


def test_a_secret_in_a_text_is_masked_and_names_stay() -> None:
    """Texts of code hold a job's values as every other text does."""
    secret = part("'hunter22'", 3, "settings.py", digest="1")
    shown = redact_value(manifest("a", settings__LIMIT=secret), {"key": "hunter22"})
    assert "hunter22" not in to_json(shown).decode()
    assert redact_value(OLD, {"key": "settings.LIMIT"}).reached == OLD.reached
