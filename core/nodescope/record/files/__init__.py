"""Recordings as files from anywhere: whose they are, whether they are whole, what limits them."""
