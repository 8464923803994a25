"""Tests of cutting two expressions down to what differs between them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamkeeper.compatibility.terms import CUT, Term, by_brackets, leaf, pieces, short, split, text_pieces

WIDTH = 40
NAMES = st.text(alphabet="abcxyz_", min_size=1, max_size=9)
TERMS = st.recursive(
    NAMES.map(leaf),
    lambda inner: st.builds(
        Term,
        before=NAMES.map(lambda name: f"{name}("),
        parts=st.lists(inner, min_size=1, max_size=6).map(tuple),
        between=st.sampled_from([", ", " + ", " and "]),
        after=st.just(")"),
    ),
    max_leaves=30,
)


@given(TERMS, TERMS)
def test_a_difference_is_never_cut_out(before: Term, after: Term) -> None:
    """Two expressions with different texts are cut to two different pieces, and equal ones to equal pieces."""
    left, right = pieces(before, after, WIDTH)
    # A text has only one term, but two drawn terms may have one text.
    if str(before) != str(after):
        assert left != right
    if before == after:
        assert left == right


@given(TERMS, st.data())
def test_one_changed_part_is_found_wherever_it_is(term: Term, data: st.DataObject) -> None:
    """If one part of an expression changed, both names of it are shown, however deep it is nested."""

    def changed(each: Term) -> tuple[Term, Term]:
        if not each.parts:
            return leaf("OLD"), leaf("NEW")
        number = data.draw(st.integers(0, len(each.parts) - 1))
        inner = changed(each.parts[number])
        around = [(*each.parts[:number], part, *each.parts[number + 1 :]) for part in inner]
        return Term(each.before, around[0], each.between, each.after), Term(
            each.before, around[1], each.between, each.after
        )

    left, right = pieces(*changed(term), WIDTH)
    assert "OLD" in left
    assert "NEW" in right


@given(TERMS, TERMS)
def test_every_section_of_a_piece_is_contained_in_the_expression(before: Term, after: Term) -> None:
    """Every section of a piece between the cut marks is contained in the expression."""
    for piece, whole in zip(pieces(before, after, WIDTH), (before, after), strict=True):
        assert all(part.strip() in str(whole) for part in piece.split(CUT))


@given(TERMS, TERMS)
def test_what_fits_is_shown_whole(before: Term, after: Term) -> None:
    """Nothing is cut if both expressions fit the width."""
    room = max(len(str(before)), len(str(after)))
    assert pieces(before, after, room) == (str(before), str(after))


@given(TERMS)
def test_a_single_long_expression_is_shortened(term: Term) -> None:
    """A single long expression is shortened to at most about twice the width."""
    assert len(short(term, WIDTH)) <= 2 * WIDTH + 1


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_two_texts_are_cut_around_their_first_difference(before: str, after: str) -> None:
    """Texts that are no expressions are cut to the width around their first difference, which stays visible."""
    left, right = text_pieces(before, after, WIDTH)
    assert max(len(left), len(right)) <= WIDTH + 2
    assert before == after or left != right or CUT in before + after


def test_changed_list_entries_are_shown_within_their_expression() -> None:
    """Changed entries of a list are shown within the expression that contains the list."""
    old = by_brackets('when(country IN ("AT", "BE", "CH", "DE", "DK", "ES", "FR", "IT", "LU", "NL"), "europe")')
    new = by_brackets('when(country IN ("AT", "BE", "CH", "DE", "DK", "ES", "FR", "IT", "NL", "PL"), "europe")')
    assert pieces(old, new, WIDTH) == (
        'when(country IN (…, "LU", …), "europe")',
        'when(country IN (…, "PL"), "europe")',
    )


def test_separators_in_brackets_or_quotes_are_ignored() -> None:
    """A text is split only at separators outside brackets and quotes."""
    assert split('a, f(b, c), "d, e", [f, g]', ", ") == ["a", "f(b, c)", '"d, e"', "[f, g]"]


def test_a_long_single_argument_is_cut_inside_its_brackets() -> None:
    """A call with one long name as its argument is cut inside its brackets, which are kept, and fits the width."""
    term = Term("f(", (leaf("x" * 30),), after=")")
    assert short(term, 20) == f"f({'x' * 13}{CUT})"
    assert len(short(term, 20)) <= 20
