"""Drills: a real system is broken, the watch has to name the cause, and what is advised has to mend it."""
