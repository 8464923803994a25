"""The command line: parses options and prints results. Operations make all decisions."""
