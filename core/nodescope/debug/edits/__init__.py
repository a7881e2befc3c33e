"""Edits: how the change of a value is written and made."""
