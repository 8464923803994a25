"""Starts, observes and stops drivers: one small contract, and one module for each kind of place where drivers run."""
