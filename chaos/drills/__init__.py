"""Drills that break a real system: the watch has to name the cause, and the advised action has to mend it."""
