"""Values: reads the values and times of two runs for their comparison.

Invariant: at most `BUDGET_BYTES` of arrays are read for one comparison. Beyond that, statistics are
compared, and `Measure.source` says so.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from nodescope.compare.measure import Measure, measure_arrays, measure_summaries
from nodescope.events import Array
from nodescope.ir.graph import Node, Spec
from nodescope.record.graphs import defined, end_of
from nodescope.record.recording import Recording
from nodescope.record.rows import MAX_SEQ, ValueAt

BUDGET_BYTES = 256 << 20
_WIDEST = 32  # bytes of an element


class Pair(NamedTuple):
    """A value in both runs: its producers and ids; ``why`` says why the compiled run lacks it."""

    eager: Node | None
    eager_value: int
    compiled: Node | None
    compiled_value: int
    port: int
    spec: Spec
    why: str


class AsOf(NamedTuple):
    """The eager run's nodes and specs of values by id, as of a step."""

    nodes: dict[int, Node]
    specs: dict[int, Spec]


class PairReader:
    """Reads two recordings, each part once."""

    def __init__(self, eager: Recording, compiled: Recording) -> None:
        self._eager, self._compiled = eager, compiled
        self._left = BUDGET_BYTES
        self._rows = [row.node for row in compiled.nodes()]
        leaves = [node for node in self._rows if node.is_leaf]
        self._leaves = {node.name: node for node in leaves}
        self._leaf_of = {value: node for node in leaves for value in node.outputs}
        self._by_id = {node.id: node for node in self._rows}
        self.eager_times = {
            node: float(median(duration)) for node, duration in _durations(eager).items()
        }
        self.compiled_durations = _durations(compiled)
        self._seqs = functools.lru_cache(maxsize=256)(self._read_seqs)
        self.as_of = functools.lru_cache(maxsize=16)(self._read_as_of)

    def run_nodes(self, graph: int) -> list[Node]:
        """The compiled run's nodes that belong to a captured graph, in order."""
        return list({node.id: node for node in self._rows if node.graph == graph}.values())

    def steps(self, nodes: Sequence[Node]) -> tuple[int, ...]:
        """The steps in which the first of these nodes of the compiled run ran."""
        if not nodes:
            return ()
        executions = self._compiled.executions(node=nodes[0].id)
        return tuple(sorted({execution.step for execution in executions}))

    def eager_nodes(self, step: int | None) -> list[Node]:
        """The nodes that the eager run executed in a step, in order, after the leaves they read.

        Without a step, all nodes that it defined.
        """
        known = self.as_of(step).nodes
        if step is not None:
            executed = {node: None for node, _ in self._eager.ran_in(step)}
            ran = [known[node] for node in executed if node in known]
            if ran:
                used = {value for node in ran for value in node.inputs}
                return [
                    node
                    for node in known.values()
                    if node.is_leaf and node.id not in executed and used & {*node.outputs}
                ] + ran
        return list(known.values())

    def compiled_nodes(self, step: int) -> list[Node]:
        """The nodes that the compiled run executed in a step, in order."""
        return [self._by_id[node] for node, _ in self._compiled.ran_in(step) if node in self._by_id]

    def compiled_leaf(self, value: int) -> Node | None:
        """The compiled run's leaf that produces a value."""
        return self._leaf_of.get(value)

    def leaf_like(self, eager: Node) -> Node | None:
        """The compiled run's leaf with the same name and source line as an eager one."""
        leaf = self._leaves.get(eager.name)
        return leaf if leaf is not None and leaf.source == eager.source else None

    def to_measure(self, steps: Sequence[int], samples: int) -> tuple[int, ...]:
        """The steps to measure: a sample of those with arrays in both runs, if there are any."""
        kept = self._eager.steps_with_arrays() & self._compiled.steps_with_arrays()
        both = self.of_both(steps)
        return sampled([value for value in both if value in kept] or both or steps, samples)

    def of_both(self, steps: Sequence[int]) -> list[int]:
        """Those of the given steps that the eager run has as well."""
        eager_steps = {row.step for row in self._eager.steps()}
        return [step for step in steps if step == 0 or step in eager_steps]

    def measure(self, pair: Pair, step: int) -> Measure:
        """The difference of a value between the runs in a step."""
        if pair.eager is None or pair.compiled is None:
            return Measure("none", why=pair.why)
        arrays = self._arrays(pair, step)
        if arrays is not None:
            return measure_arrays(*arrays)
        eager_summary = self._at(True, step, pair.eager, pair.eager_value)
        two = self._at(False, step, pair.compiled, pair.compiled_value)
        if eager_summary is None or two is None:
            missing_side = "eager" if eager_summary is None else "compiled"
            return Measure("none", why=f"the {missing_side} run kept no value of step {step}")
        if eager_summary.summary.blob and two.summary.blob:
            size = eager_summary.summary.nbytes + two.summary.nbytes
            if size <= self._left:
                self._left -= size
                a = self._eager.array(eager_summary.value, eager_summary.seq)
                b = self._compiled.array(two.value, two.seq)
                if a is not None and b is not None:
                    return measure_arrays(a, b)
        return measure_summaries(eager_summary.summary, two.summary)

    def _arrays(self, pair: Pair, step: int) -> tuple[Array, Array] | None:
        """The value's arrays in a step, if both recordings kept them and the budget allows it."""
        seqs = [
            self._seqs(eager, step).get(node.id) if node is not None else None
            for eager, node in ((True, pair.eager), (False, pair.compiled))
        ]
        if seqs[0] is None or seqs[1] is None or 2 * _most_bytes(pair.spec) > self._left:
            return None
        a = self._eager.array(pair.eager_value, seqs[0])
        b = None if a is None else self._compiled.array(pair.compiled_value, seqs[1])
        if a is None or b is None:
            return None
        self._left -= a.nbytes + b.nbytes
        return a, b

    def _at(self, eager: bool, step: int, node: Node, value: int) -> ValueAt | None:
        recording = self._eager if eager else self._compiled
        seqs = self._seqs(eager, step)
        seq = seqs.get(node.id)
        if seq is None:
            # A leaf from before the step keeps its value.
            before = node.is_leaf and seqs
            return recording.latest_at(value, max(seqs.values())) if before else None
        summary = recording.latest_at(value, seq)
        return summary if summary is not None and summary.seq == seq else None

    def _read_as_of(self, step: int | None) -> AsOf:
        until = MAX_SEQ if step is None else end_of(self._eager, step)
        nodes, values = defined(self._eager, until)
        return AsOf(
            {node.id: node for node in nodes}, {row.value.id: row.value.spec for row in values}
        )

    def _read_seqs(self, eager: bool, step: int) -> dict[int, int]:
        return dict((self._eager if eager else self._compiled).ran_in(step))


def _most_bytes(spec: Spec) -> int:
    """The largest possible size of a value in bytes."""
    return math.prod(size or 1 for size in spec.shape) * _WIDEST


def sampled(steps: Sequence[int], samples: int) -> tuple[int, ...]:
    """At most ``samples`` of the steps, evenly spaced, including the first and the last."""
    if len(steps) <= samples:
        return tuple(steps)
    if samples == 1:
        return (steps[-1],)
    last = len(steps) - 1
    return tuple(steps[place * last // (samples - 1)] for place in range(samples))


def _durations(recording: Recording) -> dict[int, list[int]]:
    durations: dict[int, list[int]] = defaultdict(list)
    for node, duration in recording.durations():
        durations[node].append(duration)
    return durations
