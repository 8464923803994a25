"""Inspects a query that is not started: its manifest, and a rehearsal on a copy of its checkpoint."""
