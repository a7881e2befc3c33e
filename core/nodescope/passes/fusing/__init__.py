"""Shared parts of the passes that build kernels."""
