"""Watch rules as data: what a rule applies to, its parameters, its requirements, and its findings.

A rule is one `Rule` in a file of `rules/`, or of a package with the entry point group
``nodescope.watch``. Its `begin` creates a fresh `Look` for each watch; a look sees one value,
moment after moment, and reports findings.

Invariant: a look changes only its own state. Missing data raises `MissingData`, and is never
guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from nodescope.debug.watch.observation import NotYet, Sight, Target
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.errors import NodescopeError
from nodescope.ir.graph import Node
from nodescope.registry import did_you_mean

Need = Literal[
    "summary", "values", "previous_summary", "previous_values", "gradient", "inputs", "history"
]
Kind = Literal["number", "count", "flag", "text"]
Setting = float | int | bool | str
Settings = Mapping[str, Any]

ORIGINS: Final = ("MindInsight", "SageMaker", "TensorBoard", "nodescope")
"""The origins of rules, in the order in which they are listed."""

TARGETS: Final[dict[str, str]] = {
    "weights": "weights (parameters, not the optimizer's own)",
    "gradients": "gradients of any value",
    "weight_gradients": "gradients of weights",
    "activations": "outputs of activation functions",
    "losses": "losses: results of loss functions, and values where a backward pass started",
    "inputs": "input data from the program",
    "values": "any value",
    "graph": "the graph of the program, at the end of steps",
}

_UNITS: Final[dict[str, dict[str, float]]] = {
    "s": {"ms": 0.001, "s": 1, "min": 60, "h": 3600},
    "%": {"%": 1},
    "steps": {"steps": 1, "step": 1},
}
_NUMBER: Final = re.compile(r"([+-]?(?:inf|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?))(.*)")


class WatchError(NodescopeError, ValueError):
    """A watch is invalid.

    Attributes:
        column: Zero-based column of the fault in the watch's text, or -1.
    """

    def __init__(self, message: str, *, column: int = -1, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.column = column


def needs_steps(needed: int, had: int) -> NotYet:
    """The exception of a rule that has seen a value ``had`` times but needs ``needed`` times."""
    return NotYet(f"needs {needed} steps, had {had}")


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a rule.

    Attributes:
        text: A description with the numbers, without the node's name, which the report adds.
        actual: The numbers found, by the names of the parameters or statistics.
    """

    text: str
    actual: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a graph rule on a node.

    Attributes:
        node: The node; the verdict is about its first output.
        text: What is wrong and how to fix it; ``""`` if nothing is wrong.
        actual: As in `Finding`.
    """

    node: Node
    text: str = ""
    actual: Mapping[str, Setting] = field(default_factory=dict)


Look = Callable[["Sight"], Finding | None]
Study = Callable[[ProgramGraph, bool], Iterable[Verdict]]
"""Judges the graph at the end of a step; its second argument is whether the run is over."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a rule.

    Attributes:
        default: The default; None if it stays unset unless the watch sets it.
        about: A description.
        unit: ``%``, ``s``, ``steps`` or ``""``.
        low, high: Bounds, inclusive.
        required: Whether the watch must set it.
    """

    name: str
    kind: Kind
    default: Setting | None
    about: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    required: bool = False

    def read(self, text: str) -> Setting:
        """The setting that a text means, such as ``1e-9``, ``50%``, ``30min`` or ``true``.

        Raises:
            WatchError: The text is not a setting of this parameter.
        """
        if self.kind == "text":
            return text
        if self.kind == "flag":
            word = text.strip().lower()
            if word in ("true", "false"):
                return word == "true"
            raise WatchError(f"{self.name} must be true or false, not {text!r}")
        match = _NUMBER.fullmatch(text.strip())
        if match is None:
            raise WatchError(f"{self.name} must be a number, not {text!r}")
        unit = match[2].strip()
        units = _UNITS.get(self.unit, {})
        if unit and unit not in units:
            takes = f"it takes {', '.join(units)}" if units else "it takes no unit"
            raise WatchError(f"{self.name} has no unit {unit!r}", hint=takes)
        if not unit and self.kind == "count" and re.fullmatch(r"[+-]?\d+", match[1]):
            return self.check(int(match[1]))
        return self.check(float(match[1]) * units.get(unit, 1))

    def check(self, setting: Setting) -> Setting:
        """The setting in the form that the rule takes.

        Raises:
            WatchError: The setting has another kind, or is out of bounds.
        """
        kind = self.kind
        if kind == "text" and isinstance(setting, str):
            return setting
        if kind == "flag" and isinstance(setting, bool):
            return setting
        real = isinstance(setting, int | float) and not isinstance(setting, bool)
        if kind in ("number", "count") and real:
            return self._bounded(setting)  # type: ignore[arg-type]
        expected = {"text": "text", "flag": "true or false", "number": "a number"}
        raise WatchError(f"{self.name} must be {expected.get(kind, 'an integer')}, not {setting!r}")

    def _bounded(self, setting: int | float) -> Setting:
        if self.kind == "count":
            if setting != setting or math.isinf(setting) or setting != int(setting):
                raise WatchError(f"{self.name} must be an integer, not {setting}")
            setting = int(setting)
        elif isinstance(setting, int) and abs(setting) > 1 << 1000:
            raise WatchError(f"{self.name} is too large")
        else:
            setting = float(setting)
        if not self.low <= setting <= self.high:
            unit = f" {self.unit}" if self.unit else ""
            if self.high == math.inf:
                raise WatchError(
                    f"{self.name} must be at least {self.low:g}{unit}, not {setting:g}"
                )
            raise WatchError(
                f"{self.name} must be between {self.low:g} and {self.high:g}{unit}, not {setting:g}"
            )
        return setting


def number(name: str, default: float | None, about: str, **options: Any) -> Parameter:
    """A parameter that is a number."""
    return Parameter(name, "number", default, about, **options)


def count(name: str, default: int | None, about: str, **options: Any) -> Parameter:
    """A parameter that is a whole number, 0 or more unless bounds say otherwise."""
    return Parameter(name, "count", default, about, **{"low": 0, **options})


def flag(name: str, default: bool, about: str) -> Parameter:
    """A parameter that is true or false."""
    return Parameter(name, "flag", default, about)


def text(name: str, default: str | None, about: str, **options: Any) -> Parameter:
    """A parameter that is a text."""
    return Parameter(name, "text", default, about, **options)


def percent(name: str, default: float | None, about: str) -> Parameter:
    """A parameter that is a share in percent."""
    return Parameter(name, "number", default, about, unit="%", low=0, high=100)


@dataclass(frozen=True, slots=True)
class Example:
    """A case of the conformance suite, and of the documents: values, and the expected findings.

    Attributes:
        steps: The values of each step: one array, or arrays by the names of their nodes. A node
            with inputs is a tuple of its output and its inputs.
        hits: The steps, from 1, in which the rule must give a hit; in others it must not.
        params: The settings of the watch.
        ops: By name of a node: its op; otherwise, an op to which the rule applies.
        times_s: The time of each step, in seconds since the run began; one second apart by default.
        about: What the example shows.
    """

    steps: Sequence[Any]
    hits: tuple[int, ...]
    params: Mapping[str, Setting] = field(default_factory=dict)
    ops: Mapping[str, str] = field(default_factory=dict)
    times_s: tuple[float, ...] = ()
    about: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A watch rule.

    Attributes:
        name: The rule's name in snake case; if it comes from another tool, that tool's name for it.
        about: When it gives a hit, in one line.
        begin: Creates the look of one watch, with its own state. Raises `WatchError` if the
            settings contradict each other.
        applies: The kinds of values to which it applies, unless a watch names a node.
        ops: If not empty, it applies to nodes of these ops only.
        concerns: If not None, it applies only to nodes for which this returns true when they are
            defined.
        needs: The data that it may request from a sight.
        parameters: The parameters that a watch can set.
        any_of: Parameters of which at least one must be set.
        origin: The tool that it comes from.
        aliases: Other names: abbreviations and the names of other tools. Case does not matter.
        selects: Returns further selections of nodes named by settings, such as ``node:val/loss``.
        examples: Cases with the required hits.
        study: For a rule about the graph: creates the study of one watch, which replaces the look.
            See `nodescope.debug.watch.graph_rule`.
        lasting: Whether a hit counts only if its finding lasted to the end of the run: a weight
            that is idle for some steps is not a fault.
        follows: Rules whose hits explain a hit of this rule, likeliest first; a report lists it
            beneath them.
        diverges: Whether a hit means that training diverged, which explains later NaN and Inf.
        explains: Whether a hit names the mistake and its place, so that tracing adds nothing.
        suits: Returns why it is recommended for a program with these nodes; ``""`` if it is not.
            None if that is decided elsewhere.
    """

    name: str
    about: str
    begin: Callable[[Settings], Look]
    applies: tuple[Target, ...] = ("values",)
    ops: frozenset[str] = frozenset()
    needs: frozenset[Need] = frozenset({"summary"})
    parameters: tuple[Parameter, ...] = ()
    any_of: tuple[str, ...] = ()
    origin: str = "nodescope"
    aliases: tuple[str, ...] = ()
    selects: Callable[[Settings], tuple[str, ...]] | None = None
    examples: tuple[Example, ...] = ()
    study: Callable[[Settings], Study] | None = None
    lasting: bool = False
    follows: tuple[str, ...] = ()
    diverges: bool = False
    explains: bool = False
    suits: Callable[[Sequence[Node]], str] | None = None
    concerns: Callable[[Node, ProgramGraph], bool] | None = None

    def parameter(self, name: str) -> Parameter:
        """The parameter with a name.

        Raises:
            WatchError: There is none; the hint suggests similar names.
        """
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        names = [parameter.name for parameter in self.parameters]
        choices = f"it has {', '.join(names)}" if names else "it has no parameters"
        hint = did_you_mean(name, names) or choices
        raise WatchError(f"{self.name} has no parameter {name!r}", hint=hint)

    def settings(self, params: Mapping[str, Setting]) -> dict[str, Any]:
        """All parameters with the watch's settings or their defaults.

        Raises:
            WatchError: A parameter is unknown, missing, of the wrong kind or out of bounds.
        """
        settings: dict[str, Any] = {
            parameter.name: parameter.default for parameter in self.parameters
        }
        for name, setting in params.items():
            settings[name] = self.parameter(name).check(setting)
        for parameter in self.parameters:
            if parameter.required and settings[parameter.name] is None:
                raise WatchError(
                    f"{self.name} requires {parameter.name}",
                    hint=f"{parameter.name} is {parameter.about}",
                )
        if self.any_of and all(settings[alternative] is None for alternative in self.any_of):
            raise WatchError(f"{self.name} requires one of {', '.join(self.any_of)}")
        return settings


def plain(look: Callable[[Sight, Settings], Finding | None]) -> Callable[[Settings], Look]:
    """A `Rule.begin` for a rule without state."""
    return lambda settings: lambda sight: look(sight, settings)


def per_value(begin: Callable[[Settings], Look]) -> Callable[[Settings], Look]:
    """A `Rule.begin` with a separate state for each value."""

    def begin_all(settings: Settings) -> Look:
        looks: dict[int, Look] = {}

        def look(sight: Sight) -> Finding | None:
            value_look = looks.get(sight.value)
            if value_look is None:
                value_look = looks[sight.value] = begin(settings)
            return value_look(sight)

        return look

    return begin_all
