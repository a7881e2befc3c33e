"""The C back end: kernels that the system's own compiler makes."""
