"""The crash campaign: kill a deploy at every named point, then at random, and hold the ledger against the input."""
