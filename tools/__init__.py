"""Generators of sources and documents of this repository; not part of the wheel."""
