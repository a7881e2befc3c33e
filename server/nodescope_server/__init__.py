"""The server: lists runs, guards the door, carries records and commands to and from browsers.

Invariant: it reads recordings and relays commands; it never runs a program and never computes one.
"""

from importlib.metadata import version

__version__ = version("nodescope")
