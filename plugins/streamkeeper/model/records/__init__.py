"""What is recorded of a job: the journal, the state that it gives, operations, versions, snapshots."""
