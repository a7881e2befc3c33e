"""Data loading: the operations that compute batches, in data loader workers and in the program.

A worker observes itself and reports to the program; only the program has a recording and a
debugger.
"""
