"""What is wrong with a job, by what cause, and what to do: pure rules over one look."""
