"""A driver for a negative control: it does not check whether its checkpoint is still the same one."""

from __future__ import annotations

import sys

from streamkeeper.driver import taking_over
from streamkeeper.driver.continuity import Continuity
from streamkeeper.driver.driver_lifetime import main

if __name__ == "__main__":
    Continuity.check_start = lambda self: None  # type: ignore[method-assign]
    Continuity.check_batch = lambda self, batch_id: None  # type: ignore[method-assign]
    taking_over.must_be_there = lambda tree, known: None
    main(sys.argv[1:])
