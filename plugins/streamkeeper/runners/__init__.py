"""How drivers are started, observed and ended: one small contract, a module per way."""
