"""Realistic jobs and edits drawn from a seed, what Spark does with each edit, and what the check answers about it."""
