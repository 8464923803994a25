"""Snapshots of a job: taken, aged, drilled, exported and pruned."""
