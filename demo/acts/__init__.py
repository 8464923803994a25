"""The acts of the demo: each acts on the running jobs and states the expected outcome."""
