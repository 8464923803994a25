"""Kinds of sources: for each kind, everything that Streamkeeper knows about it. Pure."""
