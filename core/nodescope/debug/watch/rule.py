"""Watch rules as data: what a rule applies to, its parameters, its requirements, and its findings.

A rule is one `Rule` in a file of `rules/`, or of a package with the entry point group
``nodescope.watch``. Its `begin` creates a fresh `Look` for each watch; a look sees one value,
moment after moment, and reports findings.

Invariant: a look changes only its own state. What is not there raises `MissingData`, and is never
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
"""Where rules are from, in the order in which they are listed."""

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
    """A watch that cannot be understood.

    Attributes:
        column: Zero-based column of the fault in the watch's text, or -1.
    """

    def __init__(self, message: str, *, column: int = -1, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.column = column


def needs_steps(needed: int, had: int) -> NotYet:
    """To be raised by a rule that saw a value ``had`` times and can judge it from ``needed`` on."""
    return NotYet(f"needs {needed} steps, had {had}")


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a rule.

    Attributes:
        text: In words, with the numbers; the node's name is added by who reports it.
        actual: The numbers that were found, by the names of the parameters or statistics.
    """

    text: str
    actual: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a graph rule on a node.

    Attributes:
        node: Whose first output it is about.
        text: What is wrong and how to fix it; ``""`` if nothing is.
        actual: As of `Finding`.
    """

    node: Node
    text: str = ""
    actual: Mapping[str, Setting] = field(default_factory=dict)


Look = Callable[["Sight"], Finding | None]
Study = Callable[[ProgramGraph, bool], Iterable[Verdict]]
"""Judges the graph at the end of a step; takes whether the run is over."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a rule.

    Attributes:
        default: None if it is not set unless the watch sets it.
        about: What it means, in words.
        unit: ``%``, ``s``, ``steps`` or ``""``.
        low, high: Bounds, inclusive.
        required: Must be set by the watch.
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
            WatchError: It means none.
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
            WatchError: It is of another kind, or out of bounds.
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
        steps: What is seen in each step: one array, or arrays by the name of their nodes. A node
            that has inputs is a tuple: its output, then its inputs.
        hits: The steps, from 1, in which the rule must give a hit; in the others it must not.
        params: How the watch sets it.
        ops: The op of a node by its name; else what the rule applies to decides.
        times_s: When each step is, in seconds since the run began; one second apart if not said.
        about: What is shown.
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
        name: The name that MindInsight, SageMaker Debugger or TensorBoard gave it, in snake case.
        about: When it gives a hit, in one line.
        begin: Makes the look of one watch, with state of its own. Raises `WatchError` if the
            settings make no sense together.
        applies: The kinds of values it applies to unless a watch names a node.
        ops: Of these ops only, if any.
        concerns: Of these nodes only, by what the graph shows when they are defined; None is all.
        needs: What it may ask a sight for.
        parameters: What a watch can set.
        any_of: Of these parameters at least one must be set.
        origin: Where it comes from.
        aliases: Other names: abbreviations and the names of other tools. Case does not matter.
        selects: Selections of nodes that the settings name besides, such as ``node:val/loss``.
        examples: Cases that it must decide so.
        study: Of a rule about the graph: makes the study of one watch, which takes the place of a
            look. See `nodescope.debug.watch.graph_rule`.
        lasting: Of a run that is over, a hit counts only if what it found lasted to the end: a
            weight that is idle for some steps is no fault.
        follows: Rules whose hits explain one of this rule, the likeliest first: in a report it is
            listed beneath them.
        diverges: A hit says that training has diverged, which explains NaN and Inf that come later.
        explains: A hit names the mistake and its place: tracing numbers further would add nothing.
        suits: Why it is recommended for a program of these nodes; ``""`` if it is not. None if that
            is decided elsewhere.
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
        """The parameter of that name.

        Raises:
            WatchError: There is none; the hint names near ones.
        """
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        names = [parameter.name for parameter in self.parameters]
        choices = f"it has {', '.join(names)}" if names else "it has no parameters"
        hint = did_you_mean(name, names) or choices
        raise WatchError(f"{self.name} has no parameter {name!r}", hint=hint)

    def settings(self, params: Mapping[str, Setting]) -> dict[str, Any]:
        """Every parameter with what the watch sets or the default.

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
    """A `Rule.begin` that keeps the state of each value apart."""

    def begin_all(settings: Settings) -> Look:
        looks: dict[int, Look] = {}

        def look(sight: Sight) -> Finding | None:
            value_look = looks.get(sight.value)
            if value_look is None:
                value_look = looks[sight.value] = begin(settings)
            return value_look(sight)

        return look

    return begin_all
