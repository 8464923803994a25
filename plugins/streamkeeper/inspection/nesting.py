"""Allows recursion of any depth by continuing in another thread before the current thread's stack overflows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Answer = TypeVar("Answer")

_PER_THREAD = 40
"""The number of nested calls in one thread. Python allows 1000 frames, and there are at most 15 frames from one such
call to the next.
"""


class Nesting:
    """Counts the calls that are nested in each other, and continues in a new thread once the count is high.

    Python's recursion limit counts the frames of a thread and protects the thread's C stack from an overflow. The limit
    is not raised here, because a new thread starts with a new count and a new stack in every version of Python.
    """

    def __init__(self) -> None:
        self._open = 0

    def call(self, function: Callable[[Given], Answer], argument: Given) -> Answer:
        """Run ``function(given)`` and return its result, possibly in another thread.

        The function may call this method recursively, nested to any depth.
        """
        self._open += 1
        try:
            if self._open % _PER_THREAD:
                return function(argument)
            with ThreadPoolExecutor(max_workers=1) as fresh:
                return fresh.submit(function, argument).result()
        finally:
            self._open -= 1
