"""What is declared of each kind of output. No module of this package does I/O, so that every decision may read them."""
