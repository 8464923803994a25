"""Side-by-side measurements and crash campaigns: long, on purpose, and never part of the tests."""
