"""Recursion as deep as what it is about: it goes on in another thread before a stack can run out."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Answer = TypeVar("Answer")

_PER_THREAD = 40
"""Nested calls in one thread. Python allows it 1000 frames, and the deepest way from one call to the next has 15."""


class Nesting:
    """Counts the calls that are open inside each other.

    Python's limit counts the frames of a thread and keeps its C stack from overflowing. It is not raised here: a new
    thread begins anew with both, whatever the version of Python and the size of its stacks.
    """

    def __init__(self) -> None:
        self._open = 0

    def call(self, function: Callable[[Given], Answer], given: Given) -> Answer:
        """``function(given)``, which may come back here any number of times; it must not rely on its thread."""
        self._open += 1
        try:
            if self._open % _PER_THREAD:
                return function(given)
            with ThreadPoolExecutor(max_workers=1) as fresh:
                return fresh.submit(function, given).result()
        finally:
            self._open -= 1
