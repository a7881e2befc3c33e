"""Edits: the syntax and the application of changes to values."""
