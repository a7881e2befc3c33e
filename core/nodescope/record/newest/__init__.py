"""The newest values of a run, kept whole whatever its level."""
