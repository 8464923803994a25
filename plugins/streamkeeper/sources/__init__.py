"""What each kind of input promises: whether the same offsets can be read again, and until when."""
