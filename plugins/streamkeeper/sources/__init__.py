"""The guarantees of each kind of input: whether the same offsets can be read again, and until when."""
