"""Snapshots of a checkpoint that is written and cleaned up twice a second, each resumed at its own commit."""
