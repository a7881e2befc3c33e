"""Back ends: what turns a lowered graph into something that runs."""
