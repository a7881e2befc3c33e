"""Recordings as untrusted files: their ownership, integrity and limits."""
