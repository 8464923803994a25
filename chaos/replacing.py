"""Putting other code in the place of Streamkeeper's own, for negative controls; imports nothing of Streamkeeper."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def replace_in(owner: object, **functions: Callable[..., Any]) -> None:
    """Put each function in the place of the one that a class or a module has under this name.

    Raises LookupError for a name that ``owner`` does not have, and TypeError for a function that cannot be called as
    the present one is: such a protection would not be switched off, or the control would break and not the site.
    """
    for name, function in functions.items():
        if not hasattr(owner, name):
            raise LookupError(f"{owner} has no {name}")
        _must_take_the_calls_of(getattr(owner, name), function)
        setattr(owner, name, function)


def _must_take_the_calls_of(present: Callable[..., Any], function: Callable[..., Any]) -> None:
    expected = inspect.signature(present).parameters.values()
    positional = [each.name for each in expected if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    named = {each.name: None for each in expected if each.kind is each.KEYWORD_ONLY}
    try:
        inspect.signature(function).bind(*positional, **named)
    except TypeError as error:
        raise TypeError(f"{present.__qualname__} is called otherwise: {error}") from error
