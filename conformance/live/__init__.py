"""Takes snapshots of a checkpoint that is written and cleaned up twice a second, and resumes each at its own commit."""
