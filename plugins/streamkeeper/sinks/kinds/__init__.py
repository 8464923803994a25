"""The declarations of the kinds of output. No module of this package does I/O, so that every decision may read them."""
