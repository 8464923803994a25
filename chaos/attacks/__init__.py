"""Attacks from the side: nothing is killed, but the world around a served job is not what Streamkeeper left there."""
