"""Mutation testing: each mutant is a single small fault in the code that a fast test should detect."""
