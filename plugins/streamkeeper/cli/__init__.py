"""The command line: what a person asks, and how the answer is shown. Decides nothing itself."""
