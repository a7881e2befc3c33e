"""End to end: what a user does, in a real browser."""
