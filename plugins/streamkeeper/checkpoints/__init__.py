"""Spark's checkpoint directories as files: read, listed as closed sets, cloned. Without Spark."""
