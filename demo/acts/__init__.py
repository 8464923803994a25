"""The acts of the demo: each does something to the running jobs, and says what it was to become."""
