"""The declarations of the kinds of runner. No module of this package does I/O, so settings and drivers can
import it.
"""
