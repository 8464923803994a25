"""``python -m streamkeeper.driver <job> <instance> <generation>``: runs a driver process."""

from __future__ import annotations

import sys

from streamkeeper.driver.driver_lifetime import main

if __name__ == "__main__":
    main(sys.argv[1:])
