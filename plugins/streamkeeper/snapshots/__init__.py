"""Snapshots of checkpoints in a store: packed, content-addressed, verified by resuming from them, and retained by
rules.
"""
