"""The kinds of sources, and all facts that Streamkeeper has about each kind. Pure."""
