"""Back ends, which turn a lowered graph into something that runs."""
