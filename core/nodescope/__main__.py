"""``python -m nodescope``.

Invariant: the same as the command ``nodescope``.
"""

from __future__ import annotations

import sys

from nodescope.cli import main

if __name__ == "__main__":
    sys.exit(main())
