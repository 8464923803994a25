"""The watch over all jobs: what it observes and reports, and which jobs it restarts."""
