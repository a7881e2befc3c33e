"""Capabilities of each framework: the page shows, and the debugger offers, only what is supported.

Invariant: a run may observe several frameworks; a node's dialect decides which capabilities apply.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import msgspec


class Capabilities(msgspec.Struct, frozen=True):
    """What can be observed of a run, and what can be done with it.

    Attributes:
        before: Whether the run can stop before a node, with its inputs.
        edit: How a value is changed at a stop: not at all, in place, or by replacing its array.
        gradients: Whether gradients of values are reported.
        scopes: The scopes of nodes: none, names given by the program, or its modules.
        steps: What ends a training step: marks in the program, a step of an optimizer, a call of
            the outermost module, a line that is reached again, or nothing.
        timing: Which times are known: none, the host's, or the device's.
        values: What is kept of values: nothing, statistics, or every element.
        rerun: What can be rerun from a recording: nothing, single nodes, or whole graphs.
        workers: Whether nodes run in several processes.
        immutable: Whether no operation changes an existing value.
        unrolled: Whether each call is a node of its own, also in a loop without steps.
    """

    before: bool = False
    edit: Literal["none", "in_place", "replace"] = "none"
    gradients: bool = False
    scopes: Literal["none", "names", "modules"] = "none"
    steps: Literal["marked", "optimizer", "root_call", "source_line", "none"] = "none"
    timing: Literal["none", "host", "device"] = "none"
    values: Literal["none", "summary", "full"] = "none"
    rerun: Literal["none", "node", "graph"] = "none"
    workers: bool = False
    immutable: bool = False
    unrolled: bool = False


class Framework(msgspec.Struct, frozen=True):
    """A library observed by a run.

    Attributes:
        dialect: The dialect of its nodes (`Node.dialect`): its adapter's name.
        version: The library's version, or ``""``.
        capabilities: What can be observed of its nodes, and done with them.
        threads: The number of threads that compute an operation; 0 if that does not matter.
    """

    dialect: str
    version: str = ""
    capabilities: Capabilities = Capabilities()
    threads: int = 0

    def __str__(self) -> str:
        return f"{self.dialect} {self.version}".strip()


OWN: Final = "nodescope"
"""The dialect of nodescope's own engine."""


Feature = Literal["before", "edit", "gradients", "scopes", "steps", "rerun"]
"""A capability that commands depend on."""


class Shortfall(NamedTuple):
    """Why a command is not available, and what to use instead."""

    text: str
    hint: str


_SHORTFALLS: Final[dict[Feature, Shortfall]] = {
    "before": Shortfall("cannot stop before a node", "stop after it: leave out 'before'"),
    "edit": Shortfall("does not let values be changed", "change the value in the program"),
    "gradients": Shortfall(
        "does not report gradients", "look at the outputs of the backward nodes"
    ),
    "scopes": Shortfall(
        "does not report scopes", "step node by node, or open scopes with nodescope.name_scope"
    ),
    "steps": Shortfall(
        "does not report training steps", "mark them with nodescope.steps, or run to a node"
    ),
    "rerun": Shortfall("cannot run recorded nodes again", "change the value at a stop"),
}


def shortfall(
    feature: Feature, frameworks: Iterable[Framework], dialect: str = ""
) -> Shortfall | None:
    """Why a feature is not available; None if it is, or if nothing is known about the framework.

    Args:
        feature: The capability that a command depends on.
        frameworks: The run's frameworks.
        dialect: The dialect of the command's node; empty if any framework will do.
    """
    known = [item for item in frameworks if not dialect or item.dialect == dialect]
    if not known or any(has(item.capabilities, feature) for item in known):
        return None
    text, hint = _SHORTFALLS[feature]
    edits = any(has(item.capabilities, "edit") for item in known)
    if feature == "rerun" and not edits:
        hint = "change the value in the program, and compare the two runs"
    if feature == "edit" and any(has(item.capabilities, "rerun") for item in known):
        hint = "What if shows what another value would change"
    return Shortfall(f"{' and '.join(item.dialect for item in known)} {text}", hint)


def has(capabilities: Capabilities, feature: Feature) -> bool:
    """Whether a capability is at least partly supported."""
    return getattr(capabilities, feature) not in (False, "none")


def others(frameworks: Iterable[Framework]) -> str:
    """The frameworks beside nodescope's own engine, as text: ``torch 2.13 and ray 3.0``; or
    ``""``.
    """
    names = [str(framework) for framework in frameworks if framework.dialect != OWN]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


ENGINE = Capabilities(
    before=True, edit="replace", gradients=True, scopes="names", steps="marked", timing="host",
    values="full", rerun="graph",
)  # fmt: skip
"""The capabilities of nodescope's own engine."""
