"""Conditions of the debugger as rules: alone, one after another, and with two thresholds."""

from __future__ import annotations

from collections.abc import Callable

from nodescope.debug.watch import register
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
from nodescope.debug.watch.scenes import compiled, holds
from nodescope.debug.watch.sight import Sight
from nodescope.debug.watch.watch import selection

_NEEDS: frozenset[Need] = frozenset({"values", "inputs", "gradient", "history"})


def _condition(settings: Settings) -> Look:
    condition = compiled("condition", settings["condition"])
    said = Finding(f"{settings['condition']} is true")
    return lambda sight: said if holds(condition, sight) else None


def _hysteresis(settings: Settings) -> Look:
    enter, leave = compiled("enter", settings["enter"]), compiled("leave", settings["leave"])
    inside = False

    def look(sight: Sight) -> Finding | None:
        nonlocal inside
        if inside:
            inside = not holds(leave, sight)
            return None
        inside = holds(enter, sight)
        return Finding(f"{settings['enter']} has become true") if inside else None

    return look


def _side(settings: Settings, side: str) -> Callable[[Sight], bool]:
    condition = compiled(side, settings[side])
    where = selection(settings[f"{side}_on"])
    return lambda sight: where.covers(sight.node) and holds(condition, sight)


def _within(settings: Settings) -> Look:
    first, second, steps = _side(settings, "first"), _side(settings, "second"), settings["steps"]
    then: tuple[int, str] | None = None

    def look(sight: Sight) -> Finding | None:
        nonlocal then
        said = None
        if then is not None and sight.step - then[0] <= steps and second(sight):
            said = Finding(
                f"{settings['second']} is true, {sight.step - then[0]} steps after "
                f"{settings['first']} was on {then[1]} (step {then[0]})",
                {"steps": sight.step - then[0]},
            )
            then = None
        elif first(sight):
            then = (sight.step, sight.name)
        return said

    return look


def _without(settings: Settings) -> Look:
    first, second, steps = _side(settings, "first"), _side(settings, "second"), settings["steps"]
    then: tuple[int, str] | None = None

    def look(sight: Sight) -> Finding | None:
        nonlocal then
        said = None
        if then is not None and sight.step - then[0] > steps:
            said = Finding(
                f"{settings['first']} was true on {then[1]} in step {then[0]}, and "
                f"{settings['second']} not in the {steps} steps after",
                {"steps": sight.step - then[0]},
            )
            then = None
        elif then is not None and second(sight):
            then = None
            return None
        if then is None and first(sight):
            then = (sight.step, sight.name)
        return said

    return look


def _sides(settings: Settings) -> tuple[str, ...]:
    return tuple(settings[each] for each in ("first_on", "second_on"))


_PAIR = (
    text("first", None, "the condition that comes first", required=True),
    text("second", None, "the condition that comes after it", required=True),
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
        "a condition of the debugger is true",
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
        "a condition becomes true; not again before another has been true",
        per_value(_hysteresis),
        needs=_NEEDS,
        parameters=(
            text("enter", None, "the condition that gives a hit", required=True),
            text("leave", None, "the condition after which it may hit again", required=True),
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
        "one condition is true, and another on the same or another node within this many steps",
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
        "one condition is true, and another is not within this many steps after it",
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
