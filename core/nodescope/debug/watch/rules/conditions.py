"""Conditions, as for breakpoints, as rules: alone, in sequence, and with two thresholds."""

from __future__ import annotations

from collections.abc import Callable

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.predicates import compiled, holds
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Need,
    Rule,
    Settings,
    count,
    per_value,
    text,
)
from nodescope.debug.watch.watch import selection

_NEEDS: frozenset[Need] = frozenset({"values", "inputs", "gradient", "history"})


def _condition(settings: Settings) -> Look:
    condition = compiled("condition", settings["condition"])
    finding = Finding(f"{settings['condition']} is true")
    return lambda sight: finding if holds(condition, sight) else None


def _hysteresis(settings: Settings) -> Look:
    enter, leave = compiled("enter", settings["enter"]), compiled("leave", settings["leave"])
    inside = False

    def look(sight: Sight) -> Finding | None:
        nonlocal inside
        if inside:
            inside = not holds(leave, sight)
            return None
        inside = holds(enter, sight)
        return Finding(f"{settings['enter']} became true") if inside else None

    return look


def _side(settings: Settings, side: str) -> Callable[[Sight], bool]:
    condition = compiled(side, settings[side])
    nodes = selection(settings[f"{side}_on"])
    return lambda sight: nodes.covers(sight.node) and holds(condition, sight)


def _within(settings: Settings) -> Look:
    first, second, steps = _side(settings, "first"), _side(settings, "second"), settings["steps"]
    first_hit: tuple[int, str] | None = None

    def look(sight: Sight) -> Finding | None:
        nonlocal first_hit
        finding = None
        if first_hit is not None and sight.step - first_hit[0] <= steps and second(sight):
            finding = Finding(
                f"{settings['second']} is true, {sight.step - first_hit[0]} steps after "
                f"{settings['first']} was true on {first_hit[1]} (step {first_hit[0]})",
                {"steps": sight.step - first_hit[0]},
            )
            first_hit = None
        elif first(sight):
            first_hit = (sight.step, sight.name)
        return finding

    return look


def _without(settings: Settings) -> Look:
    first, second, steps = _side(settings, "first"), _side(settings, "second"), settings["steps"]
    first_hit: tuple[int, str] | None = None

    def look(sight: Sight) -> Finding | None:
        nonlocal first_hit
        finding = None
        if first_hit is not None and sight.step - first_hit[0] > steps:
            finding = Finding(
                f"{settings['first']} was true on {first_hit[1]} in step {first_hit[0]}, and "
                f"{settings['second']} was not true in the {steps} steps after that",
                {"steps": sight.step - first_hit[0]},
            )
            first_hit = None
        elif first_hit is not None and second(sight):
            first_hit = None
            return None
        if first_hit is None and first(sight):
            first_hit = (sight.step, sight.name)
        return finding

    return look


def _sides(settings: Settings) -> tuple[str, ...]:
    return tuple(settings[name] for name in ("first_on", "second_on"))


_PAIR = (
    text("first", None, "the first condition", required=True),
    text("second", None, "the second condition", required=True),
    text("first_on", None, "where the first is evaluated, such as node:loss/mean", required=True),
    text("second_on", None, "where the second is evaluated", required=True),
    count("steps", 1, "at most this many steps later", unit="steps"),
)
_A_THEN_B = {
    "first": "value > 1", "first_on": "node:a", "second": "value < 0", "second_on": "node:b",
}  # fmt: skip

register(
    Rule(
        "condition",
        "a condition, as for a breakpoint, is true",
        _condition,
        needs=_NEEDS,
        parameters=(text("condition", None, "such as isnan(value).any()", required=True),),
        aliases=("expression",),
        examples=(
            Example([[1.0, 3.0], [4.0, 1.0]], (2,), {"condition": "max(value) > 3"}),
            Example([([1.0], [2.0]), ([1.0], [5.0])], (2,), {"condition": "inputs[0].max() > 3"}),
            Example([1.0, 1.0, 1.0], (3,), {"condition": "step > 2"}),
        ),
    ),
    Rule(
        "hysteresis",
        "a condition becomes true; it hits again only after a second condition was true",
        per_value(_hysteresis),
        needs=_NEEDS,
        parameters=(
            text("enter", None, "the condition for a hit", required=True),
            text("leave", None, "the condition after which it can hit again", required=True),
        ),
        examples=(
            Example(
                [1.0, 5.0, 6.0, 2.0, 5.0, 0.5, 5.0],
                (2, 7),
                {"enter": "value > 4", "leave": "value < 1"},
            ),
        ),
    ),
    Rule(
        "within",
        "one condition is true, and another, on any node, within a number of steps after it",
        _within,
        (),
        needs=_NEEDS,
        parameters=_PAIR,
        aliases=("then",),
        selects=_sides,
        examples=(
            Example(
                [
                    {"a": 2.0, "b": 1.0},
                    {"a": 0.0, "b": -1.0},
                    {"a": 0.0, "b": -1.0},
                    {"a": 2.0, "b": 1.0},
                    {"a": 0.0, "b": 1.0},
                    {"a": 0.0, "b": -1.0},
                ],
                (2,),
                _A_THEN_B,
            ),
            Example([{"a": 2.0, "b": -1.0}], (1,), {**_A_THEN_B, "steps": 0}),
            Example([{"b": -1.0, "a": 2.0}], (), _A_THEN_B, about="the other way round"),
        ),
    ),
    Rule(
        "without",
        "one condition is true, and another does not become true within a number of steps",
        _without,
        (),
        needs=_NEEDS,
        parameters=_PAIR,
        selects=_sides,
        examples=(
            Example(
                [
                    {"a": 2.0, "b": 1.0},
                    {"a": 0.0, "b": 1.0},
                    {"a": 0.0, "b": 1.0},
                    {"a": 2.0, "b": 1.0},
                    {"a": 0.0, "b": -1.0},
                    {"a": 0.0, "b": 1.0},
                ],
                (3,),
                _A_THEN_B,
            ),
        ),
    ),
)
