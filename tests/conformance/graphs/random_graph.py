"""A random graph: inputs, then nodes of the makers' choice, then outputs.

Invariant: a seed always gives the same graph while the makers do not change.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tests.conformance.graphs import idioms, makers
from tests.conformance.graphs.arrays import DTYPES
from tests.conformance.graphs.choose import Choices, Chooser, Seeded
from tests.conformance.graphs.making import Case, Making

WEIGHTS: tuple[tuple[makers.Maker, int], ...] = (
    (makers.unary, 12), (makers.binary, 16), (makers.choose, 4), (makers.clip, 2),
    (makers.reduce, 8), (makers.arg_extreme, 2), (makers.cumulative, 2), (makers.normalise, 3),
    (makers.gelu, 1), (makers.reshape, 5), (makers.transpose, 5), (makers.spread, 5),
    (makers.shuffle, 4), (makers.convert, 5), (makers.take, 5), (makers.put, 2),
    (makers.product, 6), (makers.sampled, 4),
    (idioms.again, 8), (idioms.twice, 4), (idioms.layouts, 4), (idioms.neutral, 8),
    (idioms.with_itself, 2), (idioms.softmax, 2), (idioms.layer_norm, 2), (idioms.gelu, 1),
    (idioms.attention, 1), (idioms.chain, 5), (idioms.update, 2), (idioms.waits, 2),
    (idioms.other_phase, 3), (idioms.sums, 3),
)  # fmt: skip
_MAKERS = tuple(maker for maker, weight in WEIGHTS for _ in range(weight))


def make(
    chooser: Chooser,
    name: str,
    *,
    least: int = 3,
    most: int = 40,
    chosen: Sequence[makers.Maker] = _MAKERS,
) -> Case:
    """A graph of about ``least`` to ``most`` nodes, from these makers."""
    choices = Choices(chooser)
    m = Making(choices, wild=choices.chance(30))
    for _ in range(choices.integer(1, 4)):
        m.pool.append(makers.fresh(m, _shape(choices), choices.one_of(DTYPES)))
    wanted = choices.integer(least, most if choices.chance(30) else min(most, 18))
    for _ in range(4 * wanted):  # a maker may add nothing
        if sum(not node.is_leaf for node in m.nodes) >= wanted:
            break
        choices.one_of(chosen)(m)
    return m.finish(name, _outputs(m))


def _shape(choices: Choices) -> tuple[int, ...]:
    sizes = (1, 2, 3, 4, 5, 7, 17) if choices.chance(92) else (0, 1, 2)
    return tuple(choices.one_of(sizes) for _ in range(choices.integer(0, 3)))


def _outputs(m: Making) -> list[int]:
    made = [value for node in m.nodes if not node.is_leaf for value in node.outputs]
    outputs = [(made or m.pool)[-1]]
    outputs += [m.choices.one_of(made or m.pool) for _ in range(m.choices.integer(0, 3))]
    if m.choices.chance(10):
        outputs.append(m.choices.one_of(outputs))
    if m.choices.chance(10):
        numbers = {v for v, feed in zip(m.inputs, m.feeds, strict=True) if isinstance(feed, float)}
        able = [value.id for value in m.values if value.id not in numbers]
        outputs.append(m.choices.one_of(able))
    outputs += [v for n in m.nodes if n.family == "update" for v in n.outputs if v not in outputs]
    return outputs


@functools.lru_cache(maxsize=256)
def random_case(seed: int) -> Case:
    """The graph of a seed."""
    return make(Seeded(seed), f"seed {seed}")
