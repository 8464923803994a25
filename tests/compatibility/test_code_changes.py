"""Tests that evidence about code names the changed function or value, with both texts and its line."""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.compatibility.code_changes import NO_PART, NO_RECORD, NOT_IN_RECORD, code_change
from streamkeeper.compatibility.shown import ARROW
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import IMPORT, MOST_PARTS, CodePart, Manifest, without_context
from streamkeeper.model.redaction import redact_value
from tests.compatibility.manifests import STATEFUL, changed

PLUS = "below/0 plus"


def part(text: str, line: int, file: str = "job.py", **fields: object) -> CodePart:
    """Return a piece of source code on consecutive lines."""
    lines = tuple(range(line, line + text.count("\n") + 1))
    return CodePart(**{"digest": text, "text": text, "place": f"{file}:{line}", "lines": lines, **fields})  # type: ignore[arg-type]


PARTS = {
    "job.plus": part("def plus(x):\n    return rate(x) + 1", 5),
    "helpers.rate": part("def rate(x):\n    y = x\n    return y * 2", 12, "helpers.py"),
    "settings.LIMIT": part("10", 3, "settings.py"),
}


def manifest(digest: str, **changes: CodePart | None) -> Manifest:
    """Return a query whose function uses the recorded parts, some of them changed or removed."""
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
            "function helpers.rate (helpers.py:16): `return y * 2` → `return y * 3`",
            "helpers.py:16",
        ),
        (
            {"settings__LIMIT": part("20", 4, "settings.py")},
            "value settings.LIMIT (settings.py:4): `10` → `20`",
            "settings.py:4",
        ),
        (
            {"job__plus": part("@scaled(2)\ndef plus(x):\n    return rate(x) + 1", 5)},
            "function job.plus (job.py:5): added: `@scaled(2)`",
            "job.py:5",
        ),
        (
            {"helpers__limit": part("def limit(x):\n    return min(x, 9)", 20, "helpers.py")},
            "now uses function helpers.limit (helpers.py:20)",
            "helpers.py:20",
        ),
        ({"settings__LIMIT": None}, "no longer uses value settings.LIMIT (settings.py:3)", "job.py:5"),
        (
            {"helpers__rate": part("def rate(x):\n    z = x + 1\n    return z * 3", 12, "helpers.py")},
            "function helpers.rate (helpers.py:13): `y = x` → `z = x + 1`, `return y * 2` → `return z * 3`",
            "helpers.py:13",
        ),
        (
            {
                "helpers__rate": None,
                "pricing__rate": part("def rate(x):\n    y = x\n    return y * 3", 2, "pricing.py"),
            },
            "function pricing.rate (pricing.py:4), formerly helpers.rate: `return y * 2` → `return y * 3`",
            "pricing.py:4",
        ),
        (
            {
                "job__plus": part("def plus(x):\n    return rate(x) + 2", 5),
                "helpers__rate": part("def rate(x):\n    y = x\n    return y * 3", 12, "helpers.py"),
                "settings__LIMIT": part("20", 3, "settings.py"),
                "settings__RATE": part("7", 4, "settings.py"),
            },
            "function helpers.rate (helpers.py:14): `return y * 2` → `return y * 3`; function job.plus (job.py:6): "
            "`return rate(x) + 1` → `return rate(x) + 2`; value settings.LIMIT (settings.py:3): `10` → `20`; "
            "1 more changed part",
            "helpers.py:14",
        ),
    ],
    ids=["helper", "constant", "decorator", "added", "removed", "two lines", "moved and changed", "four"],
)
def test_the_evidence_names_what_changed_and_nothing_else(
    changes: dict[str, CodePart | None], evidence: str, line: str
) -> None:
    """The evidence names only the helpers, values and decorators that changed, with their lines; the function that
    Spark calls is named only if its own text differs.
    """
    found = finding(manifest("b", **changes))
    assert found.evidence == evidence
    assert found.line == line
    assert len(evidence) <= 200 or ARROW in evidence


def test_a_part_that_only_moved_is_not_named() -> None:
    """A part that moved to a different line or module with the same text is named only if nothing else differs."""
    moved = {"helpers__rate": None, "pricing__rate": part(PARTS["helpers.rate"].text, 40, "pricing.py")}
    found = finding(manifest("b", **moved, settings__LIMIT=part("20", 3, "settings.py")))
    assert found.evidence == "value settings.LIMIT (settings.py:3): `10` → `20`"
    moved_alone = finding(manifest("b", **moved))
    assert moved_alone.evidence == "function pricing.rate (pricing.py:40), formerly helpers.rate, with the same text"
    assert moved_alone.line == "pricing.py:40"
    assert finding(manifest("b")).evidence == NO_PART


def test_a_file_is_named_only_where_no_code_differs() -> None:
    """A changed data file is named only if no code differs, because its content is not recorded."""
    file = part("", 0, digest="new", place="rates.json", beside=True)
    old = manifest("a", rates__json=part("", 0, digest="old", place="rates.json", beside=True))
    assert (
        finding(manifest("b", rates__json=file), old).evidence
        == "file rates.json changed (only its digest is recorded: compare it with the file in the deployed release)"
    )
    both = manifest("b", rates__json=file, settings__LIMIT=part("20", 3, "settings.py"))
    assert finding(both, old).evidence == "value settings.LIMIT (settings.py:3): `10` → `20`"


def test_changed_top_level_code_is_named_by_its_module_and_line() -> None:
    """Changed top-level code that runs on import is named by its module and line."""
    runs = "scaled(2)", "scaled(3)"
    old, new = (
        manifest(str(number), **{f"rules{IMPORT}": part(text, 17, "rules.py", beside=True)})
        for number, text in enumerate(runs)
    )
    assert finding(new, old).evidence == "top-level code of module rules (rules.py:17): `scaled(2)` → `scaled(3)`"


def test_the_line_whose_words_differ_is_named_rather_than_one_that_moved() -> None:
    """If one line moved and another changed, the evidence shows the changed line, and the finding's line is that
    one.
    """
    kept = "\n".join(f"    step_{number}(values, of='a longer line that fills the evidence')" for number in range(3))
    moved = "    log('a line of many words that only moved from the top of the function to its end')"
    before = f"def plus(x):\n{moved}\n{kept}\n    limit = 20\n    return x"
    after = f"def plus(x):\n{kept}\n    limit = 68\n    return x\n{moved}"
    found = finding(manifest("b", job__plus=part(after, 5)), manifest("a", job__plus=part(before, 5)))
    assert "`limit = 20` → `limit = 68`" in found.evidence
    assert found.line == "job.py:9"


def test_long_lines_are_cut_around_the_difference() -> None:
    """A long line is cut so that the difference stays visible on both sides."""
    before, after = (f"def plus(x):\n    return {'x + ' * 40}{last}{' + x' * 40}" for last in ("one", "two"))
    found = finding(manifest("b", job__plus=part(after, 5)), manifest("a", job__plus=part(before, 5)))
    assert "one" in found.evidence.split(ARROW)[0]
    assert "two" in found.evidence.split(ARROW)[1]
    assert len(found.evidence) < 250


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            "def rate(x):\n    if x is None:\n        return 0\n    return x",
            "def rate(x):\n    return x",
            "removed: `if x is None: return 0`",
        ),
        (
            "def rate(x):\n    return x",
            "def rate(x):\n    y = x\n    z = y\n    return x",
            "added: `y = x; z = y`",
        ),
        (
            "def rate(x):\n    for y in x:\n        keep(y)\n    close()",
            "def rate(x):\n    try:\n        for y in x:\n            keep(y)\n    finally:\n        close()",
            "added: `try:`, added: `finally:`",
        ),
        (
            "def rate(x):\n    a = 1\n    keep(x)\n    b = 1\n    done()\n    c = 1",
            "def rate(x):\n    a = 2\n    keep(x)\n    b = 2\n    done()\n    c = 2",
            "`a = 1` → `a = 2`, `b = 1` → `b = 2`, `c = 1` → `c = 2`",
        ),
        (
            "def rate(x):\n    a = 1\n    keep(x)\n    b = 1\n    done()\n    c = 1\n    end()\n    d = 1",
            "def rate(x):\n    a = 2\n    keep(x)\n    b = 2\n    done()\n    c = 2\n    end()\n    d = 2",
            "`a = 1` → `a = 2`, `b = 1` → `b = 2`, `c = 1` → `c = 2` and 1 more changed line",
        ),
        (
            "def rate(x):\n    log(x)\n    a = 1\n    b = 1\n    c = 1\n    d = 1\n    return x * 2",
            "def rate(x):\n    a = 1\n    b = 1\n    c = 1\n    d = 1\n    log(x)\n    return x * 3",
            "removed: `log(x)`, `return x * 2` → `log(x); return x * 3`",
        ),
        (
            "def rate(x):\n    if x:\n        keep(x)\n        close()",
            "def rate(x):\n    if x:\n        keep(x)\n    close()",
            "indentation of `close()` changed",
        ),
    ],
    ids=["removed", "added", "indented", "three", "four", "moved", "indented alone"],
)
def test_added_removed_and_replaced_lines_are_shown_as_such(before: str, after: str, told: str) -> None:
    """Added, removed and replaced lines are shown as such, with at most three changes; a line that is only indented
    differently is not shown as changed beside another change.
    """
    old, new = (manifest(text, helpers__rate=part(text, 1, "helpers.py")) for text in (before, after))
    assert finding(new, old).evidence.partition("): ")[2] == told


def test_changed_regex_flags_are_shown_by_name_after_the_pattern() -> None:
    """Changed flags of a regular expression are shown by their names, such as ``re.IGNORECASE``, with the end of the
    pattern before them.
    """
    text = "re.compile('" + r"(?P<level>\\w+) " * 6 + "', {})"
    old, new = (
        manifest(flags, settings__LINE=part(text.format(flags), 4, "settings.py"), settings__LIMIT=None)
        for flags in ("98", "32")
    )
    before, after = finding(new, old).evidence.split(ARROW)
    assert before.endswith("(?P<level>\\\\w+) ', re.IGNORECASE | re.VERBOSE)`")
    assert after.endswith("(?P<level>\\\\w+) ')`")


def test_an_addition_within_a_line_is_shown_with_its_surroundings() -> None:
    """An argument added within a line is shown with its surroundings, so that neither side is empty."""
    line = "return hashlib.md5(join_all_the_parts(bank, reference, position, separator, width).encode({})).hexdigest()"
    old, new = (
        manifest(name, helpers__rate=part(f"def rate(x):\n    {line.format(name)}", 1, "helpers.py"))
        for name in ("", "'utf-8'")
    )
    before, after = finding(new, old).evidence.split(ARROW)
    assert ".encode())" in before
    assert ".encode('utf-8'))" in after


def test_a_changed_attribute_or_inner_function_is_shown_once_in_its_container() -> None:
    """A changed attribute or inner function is shown once, as part of the class or function that contains it."""
    old, new = (
        changed(OLD, functions={PLUS: f"{limit}"}, parts=parts, reached={PLUS: tuple(parts)})
        for limit in (80.0, 75.0)
        for parts in [
            {
                "settings.Limits": part(f"class Limits:\n    hot: float = {limit}", 4, "settings.py"),
                "settings.Limits.hot": part(f"{limit}", 5, "settings.py"),
                "settings.Limits.hot#1": part(f"{limit}", 5),
                "settings.__create_fn__.__init__(hot)": part(f"{limit}", 5),
            }
        ]
    )
    told = "class settings.Limits (settings.py:5): `hot: float = 80.0` → `hot: float = 75.0`"
    assert finding(new, old).evidence == told
    inner = "job.plus.<locals>.inner"
    old, new = (
        manifest(
            change,
            **{"job__plus": part(f"def plus(x):\n    def inner():\n        {change}\n    return inner", 5)}
            | {inner: part(f"def inner():\n    {change}", 6)},
        )
        for change in ("return 1", "return 2")
    )
    assert finding(new, old).evidence == "function job.plus (job.py:7): `return 1` → `return 2`"


def test_evidence_states_that_a_manifest_has_no_recorded_parts() -> None:
    """If either manifest has no recorded parts, as in older releases, the evidence states this and the line is the
    function's.
    """
    stored = from_json(to_json(changed(OLD, parts={}, reached={})), Manifest, where="stored")
    for old, new in ((stored, manifest("b")), (OLD, changed(manifest("b"), parts={}, reached={}))):
        assert code_change(PLUS, old, new) == (NO_RECORD, "job.py:5")
    bare = to_json(stored).replace(b',"parts":{},"reached":{}', b"")
    assert from_json(bare, Manifest, where="bare") == stored


def test_a_part_beyond_the_recorded_limit_is_not_reported_as_removed() -> None:
    """A part that drops out because only a limited number is recorded is not reported as removed; if the record
    contains no difference, the evidence states this.
    """
    many = {f"m.f{number:04}": part(f"{number}", number + 1) for number in range(MOST_PARTS + 1)}
    old, new = (
        changed(OLD, functions={PLUS: digest}, parts=parts, reached={PLUS: tuple(parts)})
        for digest, parts in (
            ("a", dict(list(many.items())[:MOST_PARTS])),
            ("b", {"m.aaa": part("1", 9), **dict(list(many.items())[: MOST_PARTS - 1])}),
        )
    )
    assert code_change(PLUS, old, new).evidence == "now uses value m.aaa (job.py:9)"
    same = changed(new, parts=old.parts, reached=old.reached)
    assert code_change(PLUS, old, same).evidence == NOT_IN_RECORD


def test_different_recorded_parts_alone_give_no_finding() -> None:
    """Different recorded parts alone give no finding and leave the compared manifest unchanged."""
    other = manifest("a", settings__LIMIT=part("20", 3, "settings.py"))
    assert find_changes(OLD, other) == ()
    assert without_context(OLD) == without_context(other)


def test_a_secret_in_a_text_is_masked_and_names_stay() -> None:
    """A secret in recorded source text is masked, and the names of the parts are kept."""
    secret = part("'hunter22'", 3, "settings.py", digest="1")
    shown = redact_value(manifest("a", settings__LIMIT=secret), {"key": "hunter22"})
    assert "hunter22" not in to_json(shown).decode()
    assert redact_value(OLD, {"key": "settings.LIMIT"}).reached == OLD.reached
