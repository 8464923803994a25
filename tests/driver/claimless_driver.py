"""A driver for the negative control of an older store: it ignores every claim outside the journal."""

from __future__ import annotations

import sys

from streamkeeper.driver import taking_over
from streamkeeper.driver.driver_lifetime import main

if __name__ == "__main__":
    taking_over.see_claims = lambda *_, **__: ()  # type: ignore[assignment]
    taking_over.keep_claim = lambda *_: None  # type: ignore[assignment]
    main(sys.argv[1:])
