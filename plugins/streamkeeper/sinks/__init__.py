"""The kinds of output: their guarantees, and how each batch is written once. Importing it loads no Spark."""
