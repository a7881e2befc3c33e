"""Faults that are put into the compiler on purpose, one at a time, to see that the tests find them.

A fault lives here and replaces a part of the product while a test runs; the product holds none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from nodescope.engine.codegen.c_backend import remembered, runner
from nodescope.registry import Registry

Patch = pytest.MonkeyPatch
PLANTED: Registry[Planted] = Registry("planted fault")


@dataclass(frozen=True)
class Planted:
    """A fault.

    Attributes:
        name: As in ``pytest --planted``.
        help: What goes wrong.
        found_by: The detector that must find it; see `detectors`.
        plant: Puts it in.
    """

    name: str
    help: str
    found_by: str
    plant: Callable[[Patch], None]


def planted(
    name: str, *, found_by: str, help: str
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register a fault."""

    def registered(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        def alone(patch: Patch) -> None:
            # Plans in C are remembered on disk: neither may they hide the fault nor keep it.
            patch.setattr(runner, "plan_for", remembered.plan_of)
            plant(patch)

        PLANTED.add(name, Planted(name, help, found_by, alone))
        return plant

    return registered


def all_planted() -> tuple[Planted, ...]:
    """Every fault."""
    from tests.conformance.planted import in_back_ends, in_passes  # noqa: F401

    return tuple(item for _, item in PLANTED.items())
