"""A library that has nothing in common with NumPy, and its adapter."""
