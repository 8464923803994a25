"""Stores of records and snapshots: one small contract, and a module per kind of store."""
