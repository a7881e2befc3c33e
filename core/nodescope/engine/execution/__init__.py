"""Running graphs: plans, threads, partitions, and node by node under observation.

Invariant: whichever way a graph is run, its results are the same to the bit.
"""
