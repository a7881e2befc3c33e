"""Emission of events: what all adapters share, namely places, steps, identity, failures and
edits.
"""
