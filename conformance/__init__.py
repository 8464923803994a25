"""Conformance: compares the answers of the check with what Spark does, and measures how every door responds to bad
input.
"""
