"""What an installation and a release may set."""
