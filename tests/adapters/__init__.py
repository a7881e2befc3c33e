"""Adapters: the conformance suite, and a library that is as unlike NumPy as possible."""
