"""Adapters: one folder per library whose programs nodescope shows. See `protocol`."""
