"""Decides the next action from observations. Pure: no module here reads, writes or waits."""
