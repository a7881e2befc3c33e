"""Recording: what a run writes, and how it is read again."""
