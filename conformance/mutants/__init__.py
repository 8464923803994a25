"""Mutants: single small faults in the code, each of which some fast test should notice."""
