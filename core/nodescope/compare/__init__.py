"""Comparison of an eager run with a compiled one: matching nodes, errors, times.

Invariant: works on two recordings; nothing here knows how they were made.
"""
