"""Gradients: the tape, derivatives built on it, and custom rules.

Invariant: a gradient consists of the ops' own rules, whether observed, recorded in a graph, or
neither.
"""
