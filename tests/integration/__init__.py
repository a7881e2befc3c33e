"""Several parts together, without a browser."""
