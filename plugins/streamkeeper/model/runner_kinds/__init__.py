"""What is declared of each kind of runner. No module of this package does I/O, so that settings and drivers read it."""
