"""Compares the snapshot engine with restic, rclone and s5cmd on one machine, in one run, against one S3 server."""
