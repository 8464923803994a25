"""Streamkeeper's values: frozen, comparable, stored as JSON. This package does no I/O and never waits."""
