"""What each kind of output promises, and how a batch gets there once. Loads no Spark by itself."""
