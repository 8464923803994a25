"""Tests of conditional expressions in different notations: equal if at most one branch applies, and different
elsewhere.
"""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.normal_expressions import in_branch_order

A = 'tuple2(equalto("a":string, source 0.m), source 0.p)'
B = 'tuple2(equalto("b, (":string, source 0.m), unaryminus(source 0.p))'
C = 'tuple2(in(source 0.m, "c":string, "d":string), 1:long)'
ONE = "tuple2(equalto(-1:integer, source 0.n), x)"
TWO = "tuple2(equalto(2:integer, source 0.n), y)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"sum(casewhen(branches=[{A}, {B}]))", f"sum(casewhen(branches=[{B}, {A}]))"),
        (f"casewhen(0:long, branches=[{A}, {B}, {C}])", f"casewhen(0:long, branches=[{C}, {B}, {A}])"),
        (f"group by (casewhen(branches=[{ONE}, {TWO}]), k)", f"group by (casewhen(branches=[{TWO}, {ONE}]), k)"),
        (
            f"casewhen(casewhen(branches=[{ONE}, {TWO}]), branches=[{A}, {B}])",
            f"casewhen(casewhen(branches=[{TWO}, {ONE}]), branches=[{B}, {A}])",
        ),
        (
            "casewhen(source 0.d, branches=[tuple2(isnotnull(source 0.c), source 0.c)])",
            "coalesce(source 0.c, source 0.d)",
        ),
        ("casewhen(source 0.c, branches=[tuple2(isnull(source 0.c), f(x, y))])", "coalesce(source 0.c, f(x, y))"),
        ("a and if(isnotnull(source 0.c.d), source 0.c.d, 0:long)", "a and coalesce(source 0.c.d, 0:long)"),
        ("if(isnull(source 0.c), 0:long, source 0.c) or f(x)", "coalesce(source 0.c, 0:long) or f(x)"),
        ("sum(if(f(x), 1:integer, 0:integer))", "sum(casewhen(0:integer, branches=[tuple2(f(x), 1:integer)]))"),
        ("if(c, if(d, x, y), z)", "casewhen(z, branches=[tuple2(c, casewhen(y, branches=[tuple2(d, x)]))])"),
    ],
)
def test_equivalent_conditional_expressions_compare_as_equal(old: str, new: str) -> None:
    """Mutually exclusive branches in a different order, ``if`` as ``case``, and a spelled-out ``coalesce`` compare as
    equal.
    """
    assert old != new
    assert in_branch_order(old) == in_branch_order(new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"casewhen(branches=[{A}, {B}])", f"casewhen(branches=[{A}, {B.replace('unaryminus', 'abs')}])"),
        (f"casewhen(branches=[{A}, {B}])", f"casewhen(branches=[{A}, {B}, {C}])"),
        (f"casewhen(1:long, branches=[{A}, {B}])", f"casewhen(2:long, branches=[{B}, {A}])"),
        (
            "casewhen(branches=[tuple2(equalto(1:long, source 0.m), x), tuple2(equalto(2:long, source 0.m), y)])",
            "casewhen(branches=[tuple2(equalto(2:long, source 0.m), x), tuple2(equalto(1:long, source 0.m), y)])",
        ),
        (
            "casewhen(source 0.d, branches=[tuple2(isnotnull(source 0.c), source 0.c)])",
            "coalesce(source 0.d, source 0.c)",
        ),
        ("if(c, x, y)", "casewhen(x, branches=[tuple2(c, y)])"),
        ("if(c, x, y)", "casewhen(branches=[tuple2(c, x)])"),
        ("if(c, x, y)", "casewhen(y, branches=[tuple2(c, x), tuple2(d, x)])"),
        ("sum(nullif(c, x, y))", "sum(casewhen(y, branches=[tuple2(c, x)]))"),
    ],
)
def test_different_conditional_expressions_compare_as_different(old: str, new: str) -> None:
    """Conditional expressions with different values, literals, branches or defaults compare as different."""
    assert in_branch_order(old) != in_branch_order(new)


@pytest.mark.parametrize(
    "meaning",
    [
        'casewhen(branches=[tuple2(in(source 0.m, "b":string, "a":string), x), '
        'tuple2(equalto("a":string, source 0.m), y)])',
        "casewhen(branches=[tuple2(lessthan(source 0.n, 9:integer), x), tuple2(lessthan(source 0.n, 2:integer), y)])",
        'casewhen(branches=[tuple2(equalto("b":string, source 0.m), x), tuple2(equalto("a":string, source 0.n), y)])',
        "casewhen(branches=[tuple2(equalto(2.0:double, source 0.m), x), tuple2(equalto(1.0:double, source 0.m), y)])",
        "casewhen(branches=[tuple2(equalto(2:long, f(source 0.m)), x), tuple2(equalto(1:long, f(source 0.m)), y)])",
        'casewhen(branches=[tuple2(equalto("b":string collate UTF8_LCASE, source 0.m), x), '
        'tuple2(equalto("B":string collate UTF8_LCASE, source 0.m), y)])',
        "casewhen(source 0.d, branches=[tuple2(isnotnull(f(source 0.c)), f(source 0.c))])",
        "casewhen(source 0.d, branches=[tuple2(isnotnull(source 0.c), source 0.e)])",
        'equalto(source 0.m, "casewhen(source 0.d, branches=[tuple2(isnotnull(source 0.c), source 0.c)])":string)',
        "casewhen(source 0.d, branches=[tuple2(isnotnull(source 0.c), source 0.c)]",
    ],
)
def test_branch_order_is_kept_if_several_branches_may_apply(meaning: str) -> None:
    """The order of branches is kept where several may apply, for other types, for expressions that may vary, in
    strings, and in expressions that cannot be parsed.
    """
    assert in_branch_order(meaning) == meaning
