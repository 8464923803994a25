"""The operations on jobs: each observes, decides, records and acts, and any process can rerun it."""
