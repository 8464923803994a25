"""Runs the real control plane on simulated components, single-threaded and on a virtual clock: each seed determines one
schedule.

Real: operations, decisions, journal, control folders, the driver's main loop, gate, epochs, continuity and lease.
Simulated: the clock, processes and machines, the store, the runner, Spark's micro-batch loop, the source and the sink.
"""
