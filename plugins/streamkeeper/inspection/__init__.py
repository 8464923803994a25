"""Inspects a query before its start: describes it in a manifest, and rehearses it on a copy of its checkpoint."""
