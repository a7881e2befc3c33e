"""Faults planted into the compiler, one at a time, to check that the tests detect them.

A fault is defined here, and replaces a part of the product while a test runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from nodescope.engine.codegen.c_backend import remembered, runner
from nodescope.registry import Registry

if TYPE_CHECKING:  # Programs that tests start do without it.
    import pytest

Patch: TypeAlias = "pytest.MonkeyPatch"
PLANTED: Registry[Planted] = Registry("planted fault")


@dataclass(frozen=True)
class Planted:
    """A fault.

    Attributes:
        name: As in ``pytest --planted``.
        help: What the fault does.
        found_by: The detector that must detect it; see `detectors`.
        plant: Plants it.
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
            # Plans in C are cached on disk: the cache must neither hide the fault nor keep it.
            patch.setattr(runner, "plan_for", remembered.plan_of)
            plant(patch)

        PLANTED.add(name, Planted(name, help, found_by, alone))
        return plant

    return registered


def all_planted() -> tuple[Planted, ...]:
    """Every fault."""
    from tests.conformance.planted import in_back_ends, in_passes  # noqa: F401

    return tuple(item for _, item in PLANTED.items())
