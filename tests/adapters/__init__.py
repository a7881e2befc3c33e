"""Adapters: the conformance suite, and a library that is as foreign as can be."""
