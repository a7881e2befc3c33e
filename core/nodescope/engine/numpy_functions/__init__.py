"""NumPy's functions that are not single ops: composed of ops, or answered from shapes.

Every module here may define a table `NUMPY`; `tables` discovers it and its entries are dispatched.

Invariant: composed of ops and other functions only, so they are traced and differentiated as such.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from nodescope.engine.numpy_functions.base import Table


def tables() -> Iterator[Table]:
    """The tables of all modules here."""
    for module in pkgutil.iter_modules(__path__):
        table_module = importlib.import_module(f"{__name__}.{module.name}")
        yield getattr(table_module, "NUMPY", {})
