"""Sets environment variables temporarily."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def set_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables in this process, and in the processes that it starts in this block; restore the environment at the
    end.
    """
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
