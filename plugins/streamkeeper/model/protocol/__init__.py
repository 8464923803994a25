"""What a driver reports and is told: control files, faults, checks, drills."""
