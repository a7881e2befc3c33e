"""Choosing: decides which tap a run gets.

``NODESCOPE_TORCH_TAP`` is ``auto`` (the native tap if it is compiled; otherwise the run starts
compiling it in the background), ``native`` (waits for the compiler) or ``python``.

Invariant: `choose` never raises. Without the native tap, a run gets the Python tap.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from typing import Any, Final, NamedTuple

from nodescope.adapters.torch.native_tap import building
from nodescope.adapters.torch.native_tap.building import Plan

VARIABLE: Final = "NODESCOPE_TORCH_TAP"
CHOICES: Final = ("auto", "native", "python")
_lock = threading.Lock()
_loaded: dict[str, Any] = {}


class Choice(NamedTuple):
    """A tap, and why it is that one.

    Attributes:
        library: The native tap's extension module, or None for the Python tap.
        reason: Why, as a clause.
        announced: Whether the user is told, because the native tap is not available.
    """

    library: Any
    reason: str
    announced: bool = False


def requested_path() -> str:
    """The tap that the environment asks for."""
    requested = os.environ.get(VARIABLE, "").strip().lower() or "auto"
    return requested if requested in CHOICES else "auto"


def choose() -> Choice:
    """The tap for a run that begins; starts compiling the native tap if there is none yet."""
    requested = requested_path()
    if requested == "python":
        return Choice(None, f"{VARIABLE}=python")
    try:
        plan = building.plan()
        if isinstance(plan, str):
            return Choice(None, plan, True)
        if not plan.is_built:
            if requested == "native":
                reason = building.build(plan)
                if reason:
                    return Choice(None, reason.splitlines()[0], True)
            elif plan.log.exists():
                return Choice(None, f"the native one could not be compiled: {plan.log}", True)
            else:
                building.start(plan)
                return Choice(None, "the native one is being compiled, for the next run")
        if distrusted := plan.distrusted():
            return Choice(None, distrusted, True)
        return Choice(_load(plan), f"compiled in {os.path.dirname(plan.library)}")
    except Exception as error:
        return Choice(None, f"{type(error).__name__}: {error}", True)


def state() -> str:
    """Which tap a run would get now, and why. Compiles nothing, and does not import PyTorch."""
    requested = requested_path()
    if requested == "python":
        return f"python ({VARIABLE}=python)"
    plan = building.plan()
    if isinstance(plan, str):
        return f"python: {plan}"
    if plan.is_built:
        if distrusted := plan.distrusted():
            return f"python: {distrusted}"
        return f"native ({plan.library})"
    if plan.log.exists() and requested == "auto":
        return f"python: the native one could not be compiled, see {plan.log}"
    if requested == "native":
        return "native, which the first run compiles and waits for"
    return "python; the first run compiles the native one in the background"


def _load(plan: Plan) -> Any:
    with _lock:
        known = _loaded.get(plan.library)
        if known is None:
            import torch  # noqa: F401  loads the libraries that the module is linked with

            spec = importlib.util.spec_from_file_location(building.NAME, plan.library)
            assert spec is not None
            assert spec.loader is not None
            known = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(known)
            _loaded[plan.library] = known
        return known
