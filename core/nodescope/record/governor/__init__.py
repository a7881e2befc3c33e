"""The governor: keeps the slowdown of a run below a limit."""
