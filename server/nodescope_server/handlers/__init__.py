"""Handlers: the server's answers, by topic; no handler knows the transport."""
