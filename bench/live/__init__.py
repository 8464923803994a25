"""Snapshots of a checkpoint that is written and cleaned up as fast as Spark can, each resumed at its own commit."""
