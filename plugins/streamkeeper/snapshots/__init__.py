"""Snapshots of checkpoints in a store: packed, content-addressed, verified by resuming them, kept for a reason."""
