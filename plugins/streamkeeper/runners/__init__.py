"""Starts, observes and ends drivers: one small contract, and a module per kind of place."""
