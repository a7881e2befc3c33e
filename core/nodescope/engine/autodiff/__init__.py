"""Gradients: the tape, what is built on it, and the rules that programs bring along.

Invariant: a gradient is made of the ops' own rules, observed, recorded in a graph, or neither.
"""
