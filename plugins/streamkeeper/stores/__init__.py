"""Where records and snapshots live: one small contract, a module per kind of store."""
