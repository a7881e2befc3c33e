"""Debugging: a pure session, and the gate that pauses the program on its behalf."""
