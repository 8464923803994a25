"""Conformance: what the check answers, against what Spark does, and what every door answers to bad input."""
