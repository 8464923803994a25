"""A driver without its fence: only the negative control of the frozen drivers starts it."""

from __future__ import annotations

import sys

from streamkeeper.driver.epoch import Claim
from streamkeeper.driver.main import main
from streamkeeper.sinks.file import FileWriter

if __name__ == "__main__":
    Claim.superseded_by = lambda self, state: ""  # type: ignore[method-assign]
    FileWriter.check_fence = lambda self: None  # type: ignore[method-assign]
    main(sys.argv[1:])
