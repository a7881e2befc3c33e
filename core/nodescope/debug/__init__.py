"""Debugging: a pure session, and the gate that holds the program for it."""
