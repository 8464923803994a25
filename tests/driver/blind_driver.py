"""A driver for a negative control: it does not check whether the files of its batches exist, neither before a start nor
at the gate.
"""

from __future__ import annotations

import sys

from streamkeeper.checkpoints import open_input
from streamkeeper.checkpoints.input_files import FileLook
from streamkeeper.driver.driver_lifetime import main
from streamkeeper.jvm import batch_files

if __name__ == "__main__":
    open_input.look_for_files = lambda paths, *, unseen=None: FileLook(total=0)
    batch_files.check_all_there = lambda batch, number: None
    main(sys.argv[1:])
