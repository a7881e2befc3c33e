"""The server: lists runs, guards access, relays records and commands to and from browsers.

Invariant: it reads recordings and relays commands; it never runs a user's program.
"""

import nodescope  # noqa: F401 (first: under `python -m` it leaves the current folder)

# isort: split

from importlib.metadata import version

__version__ = version("nodescope")
