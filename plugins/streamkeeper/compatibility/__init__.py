"""Judges from two manifests what a change means for state and offsets. Pure: no function here reads files, writes or
waits.
"""
