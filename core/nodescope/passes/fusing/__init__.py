"""What the passes that make kernels share."""
