"""Graphs built by hand, the sessions that run parts of them, and saved graphs.

Invariant: a graph is run as it was built; each session has its own values.
"""
