"""Compiled graphs on Ray: each partition is an actor, and values go through the object store.

Only Ray's public interface is used. Nothing here imports Ray before a graph is built for it.
"""
