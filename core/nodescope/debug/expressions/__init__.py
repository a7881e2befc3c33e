"""The expression language of conditions and log messages."""
