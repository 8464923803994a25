"""The reports of a driver and the messages to it: control files, faults, checks, drills."""
