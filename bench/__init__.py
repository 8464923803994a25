"""Side-by-side measurements: they take long by design and are never part of the tests."""
