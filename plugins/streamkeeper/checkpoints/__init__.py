"""Spark's checkpoint directories as files, read without Spark: damage checks, closed file sets, clones."""
