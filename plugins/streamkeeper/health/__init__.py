"""Rules that find the problems of a job in one observation, with causes and advised actions. The rules are pure
functions.
"""
