"""What the server answers, by topic; no handler knows how the question came."""
