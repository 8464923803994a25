"""A driver that does not look for the files of its open batch: for the negative control only."""

from __future__ import annotations

import sys

from streamkeeper.checkpoints import open_input
from streamkeeper.checkpoints.input_files import FileLook
from streamkeeper.driver.main import main

if __name__ == "__main__":
    open_input.look_for_files = lambda paths, *, unseen=None: FileLook(total=0)
    main(sys.argv[1:])
