"""The verbs: each observes, decides, records and acts, and can be run again from anywhere."""
