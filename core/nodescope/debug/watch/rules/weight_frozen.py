"""A weight that is never trained: it has the same bits from the first step on.

Either it is written in each step without changing, although its gradient is not negligible. Or its
gradient is computed and not used, because no optimizer holds the weight. The latter may be
intended, if only a part of a network is trained. It is a fault if the losses do not fall either, or
if the layer is the last one, has its initial values, and all layers before it are trained: layers
frozen on purpose come before trained ones, or were trained earlier.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.loss_progress import LossProgress
from nodescope.debug.watch.observation import Excused, Inapplicable, ObservedContent, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    percent,
)
from nodescope.debug.watch.suiting import trains_weights
from nodescope.debug.watch.untrained_layers import Place, layer_of, place_of
from nodescope.events import Array

# A gradient below this share of the largest one is negligible.
_NOTHING: Final = 1e-5
# Layers before trained ones are often frozen on purpose, so they are blamed only if the loss has
# fallen by less than this share.
_PROBE: Final = 0.3
# If this many times more elements are idle than trained, a few numbers adapt a whole network.
_ADAPTED: Final = 4
_UNKNOWN: Final = "nothing shows whether it is to be trained"


def digest(array: Array) -> bytes:
    """A checksum of all bits of an array, its shape and its dtype."""
    state = hashlib.blake2b(repr((array.shape, array.dtype.str)).encode(), digest_size=16)
    state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return state.digest()


def _size(gradient: ObservedContent) -> float:
    """The largest finite magnitude; 0 without finite elements."""
    summary = gradient.summary
    if summary.min is None or summary.max is None:
        return 0.0
    return max(abs(summary.min), abs(summary.max))


def _begin(settings: Settings) -> Look:
    steps, least = settings["num_steps"], settings["loss_fell"] / 100
    first: dict[int, bytes] = {}  # by weight: digest of its first array
    seen: dict[int, int] = {}  # by weight: number of steps
    latest: dict[int, int] = {}
    sizes: dict[int, float] = {}  # by weight: size of its latest gradient
    changed: set[int] = set()
    blank: set[int] = set()  # weights that were all zero at first
    elements: dict[int, int] = {}
    progress = LossProgress()
    places: dict[int, tuple[tuple[int, int], tuple[int, ...], Place]] = {}

    def place(graph: ProgramGraph, value: int) -> tuple[tuple[int, ...], Place]:
        now = graph.version, len(changed)
        known = places.get(value)
        if known is None or known[0] != now:
            layer = layer_of(graph, value)
            idle = [weight for weight in sizes if weight not in changed]
            layer_place = place_of(graph, layer or (value,), changed, idle)
            known = places[value] = now, layer, layer_place
        return known[1], known[2]

    def look(sight: Sight) -> Finding | None:
        if "weights" not in sight.roles:
            progress.take(sight)
            raise Inapplicable("it trains no weights")
        value = sight.value
        gradient = sight.gradient
        if gradient is not None:
            sizes[value] = _size(gradient)
        if value in changed or not sight.size:
            return None
        now = digest(sight.array)
        if value not in first and not np.any(sight.array):
            blank.add(value)
        elements[value] = sight.size
        if first.setdefault(value, now) != now:
            changed.add(value)
            return None
        if latest.get(value) != sight.step:
            latest[value] = sight.step
            seen[value] = seen.get(value, 0) + 1
        if seen[value] <= steps:
            raise needs_steps(steps + 1, seen[value])
        # A negligible gradient is lost, which another rule reports, or its terms cancel, as before
        # a norm.
        least_size = _NOTHING * max(sizes.values(), default=0.0)
        if gradient is not None and sizes[value] <= least_size:
            return None
        if sight.written and gradient is None and value in blank:
            raise Inapplicable(_UNKNOWN)  # scaling or averaging zeros leaves zeros
        if sight.written:
            return Finding(
                f"it has not changed in {seen[value]} steps, although it is updated in each: the "
                "updates are zero, or too small to change any element",
                {"num_steps": seen[value]},
            )
        if gradient is None:
            raise Inapplicable(_UNKNOWN)
        left = progress.left
        if left is None or not changed:
            return None
        layer, layer_position = place(sight.graph, value)
        if layer_position == "last" and not blank.isdisjoint(layer) and changed.isdisjoint(layer):
            return Finding(
                f"it has not changed in {seen[value]} steps: its gradient is computed, but no "
                "optimizer updates it; it belongs to the last layer, which keeps its initial "
                "values while all layers before it are trained: give the optimizer its "
                "parameters, too",
                {"num_steps": seen[value]},
            )
        idle = sum(size for weight, size in elements.items() if weight not in changed)
        adapts = not layer_position and idle >= _ADAPTED * (sum(elements.values()) - idle)
        if adapts or left < 1 - (_PROBE if layer_position == "before" else least):
            raise Excused(
                "a gradient is computed, but no optimizer updates it, as for a frozen part; the "
                f"loss fell by {100 * max(1 - left, 0):.3g}% without it"
            )
        return Finding(
            f"it has not changed in {seen[value]} steps: its gradient is computed, but no "
            "optimizer updates it, and the loss has fallen by only "
            f"{100 * max(1 - left, 0):.3g}%",
            {"num_steps": seen[value]},
        )

    return look


_WRITTEN: Final = {"w": "parameter", "w:assign": "assign"}

register(
    Rule(
        "weight_frozen",
        "a weight keeps its bits from the first step on, although it seems meant to be trained",
        _begin,
        ("weights", "losses"),
        needs=frozenset({"values", "gradient", "history"}),
        parameters=(
            count("num_steps", 3, "steps without change", unit="steps", low=1),
            percent("loss_fell", 70, "a gradient may go unused if a loss fell by this much"),
        ),
        lasting=True,
        follows=("dead_layer", "saturated_layer", "gradient_lost"),
        suits=trains_weights("one that never changes is frozen"),
        examples=(
            Example([{"w": [1.0], "w:assign": [1.0]}] * 4, (3, 4), {"num_steps": 2}, _WRITTEN,
                    about="each step writes what it was"),
            Example([{"w": [1 + step // 4], "w:assign": [1.0]} for step in range(6)], (4,),
                    {"num_steps": 3}, _WRITTEN, about="from its first change on it is trained"),
            Example([{"w": [0.0], "w:assign": [0.0]}] * 4, (), {"num_steps": 2}, _WRITTEN,
                    about="zeros are averaged, and no gradient was computed for them"),
            Example([[1.0], [1.0], [1.0]], (), {"num_steps": 1},
                    about="nothing shows that it is to be trained"),
        ),
    )
)  # fmt: skip
