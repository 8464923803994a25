"""Attacks that kill nothing but change the world around a served job, so that it differs from what Streamkeeper left
there.
"""
