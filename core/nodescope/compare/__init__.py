"""Comparison of an eager run with a compiled one: who became whom, how far apart, in what time.

Invariant: over two recordings; nothing here knows how they came about.
"""
