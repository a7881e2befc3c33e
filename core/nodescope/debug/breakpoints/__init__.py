"""Breakpoints: how they are written, what they match, and which of them are set."""
