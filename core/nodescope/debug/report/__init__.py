"""Reports on a run: its summary, its problems, advice, and its captured output."""
