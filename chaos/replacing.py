"""Replaces functions of Streamkeeper for negative controls; imports nothing from Streamkeeper."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def replace_in(owner: object, **functions: Callable[..., Any]) -> None:
    """Replace the functions of a class or a module that have the given names.

    Raises LookupError if ``owner`` has no such name, and TypeError for a function whose signature does not accept the
    calls of the present one: the protection would not be switched off, or the control itself would fail instead of the
    installation.
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
