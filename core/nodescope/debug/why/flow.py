"""Flow: how NaN and Inf spread between the executions of a step, and where they end.

The flow is based on the recorded statistics alone, so it needs no arrays.

Invariant: only reads; the work is bounded by the given executions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nodescope.debug.replay.execution_index import ExecutionIndex, ValueSource
from nodescope.errors import ReplayError
from nodescope.ir.graph import Node
from nodescope.ops.traits import traits_of
from nodescope.record.rows import HAS_INF, HAS_NAN, HAS_SUMMARY, Execution

NONFINITE = HAS_NAN | HAS_INF


@dataclass
class Flow:
    """The flow of NaN and Inf in one step.

    Attributes:
        origins: By seq of an execution with NaN or Inf: the seqs of the births behind it.
        fed: By seq of an execution: its inputs with NaN or Inf, if there are any.
        healers: By seq of a source with NaN or Inf: the executions that read it and returned none.
        spread: The seqs of sources that were read by an execution with NaN or Inf.
        healing: The executions that read NaN or Inf and returned none, in order.
        executions: By seq: the executions with NaN or Inf, and those in ``healing``.
    """

    origins: dict[int, frozenset[int]] = field(default_factory=dict)
    fed: dict[int, list[ValueSource]] = field(default_factory=dict)
    healers: dict[int, list[int]] = field(default_factory=dict)
    spread: set[int] = field(default_factory=set)
    healing: list[Execution] = field(default_factory=list)
    executions: dict[int, Execution] = field(default_factory=dict)

    def reached(self, birth: int) -> list[int]:
        """The seqs of executions with NaN or Inf from a birth, in order, without the birth."""
        return [seq for seq, births in self.origins.items() if birth in births and seq != birth]

    def ends(self, birth: int) -> list[int]:
        """The seqs at which the NaN or Inf of a birth ends: nothing computed from them has any."""
        return [seq for seq in (birth, *self.reached(birth)) if seq not in self.spread]

    def is_healed(self, birth: int) -> bool:
        """Whether each end of a birth is read by a node that returns neither NaN nor Inf."""
        return all(self.healers.get(seq) for seq in self.ends(birth))

    def with_births(self, births: Sequence[int]) -> Flow:
        """The same flow with these births, found by elements; they may have NaN or Inf inputs."""
        born = set(births)
        origins: dict[int, frozenset[int]] = {}
        for seq in sorted(self.origins):
            from_inputs = [origins.get(s.seq, frozenset()) for s in self.fed.get(seq, ())]
            own = frozenset({seq}) if seq in born or not self.fed.get(seq) else frozenset()
            origins[seq] = own.union(*from_inputs)
            if seq not in self.executions:  # an edit: keeps its own origins
                origins[seq] = self.origins[seq]
        return replace(self, origins=origins)

    def births(self) -> list[int]:
        """All births, in order."""
        return sorted(frozenset().union(*self.origins.values()))


def flow_of(book: ExecutionIndex, executions: Sequence[Execution]) -> Flow:
    """The flow of NaN and Inf through executions, given in order.

    An execution with NaN or Inf whose inputs have none is a birth. Births with NaN or Inf inputs
    can only be found by elements: see `nodescope.debug.why.spread`.
    """
    flow = Flow()
    for execution in executions:
        sources = touched(book, execution)
        for source in sources:
            if source.edited and source.edited not in flow.origins:
                before = flow.origins.get(source.execution.seq, frozenset())
                flow.origins[source.edited] = before | {source.edited}
        if sources:
            flow.fed[execution.seq] = sources
        if not execution.flags & NONFINITE:
            node = book.node(execution.node, execution.seq)
            if sources and execution.flags & HAS_SUMMARY and looks_at(node):
                flow.healing.append(execution)
                flow.executions[execution.seq] = execution
                for source in sources:
                    flow.healers.setdefault(source.seq, []).append(execution.seq)
            continue
        origins: frozenset[int] = frozenset().union(
            *(flow.origins.get(source.seq, frozenset()) for source in sources)
        )
        flow.executions[execution.seq] = execution
        flow.spread.update(source.seq for source in sources)
        flow.origins[execution.seq] = origins or frozenset({execution.seq})
    return flow


def touched(book: ExecutionIndex, execution: Execution) -> list[ValueSource]:
    """The inputs of an execution that contain NaN or Inf."""
    try:
        sources = book.sources(execution)
    except ReplayError:
        return []
    return [source for source in sources if _holds(book, source)]


def _holds(book: ExecutionIndex, source: ValueSource) -> bool:
    """Whether a source contains NaN or Inf."""
    if not source.edited:
        return bool(source.execution.flags & NONFINITE)
    edited = book.recording.latest_at(source.value, source.edited)
    return edited is not None and bool(edited.summary.nan_count or edited.summary.inf_count)


def looks_at(node: Node) -> bool:
    """Whether an op reads its input's elements; some use only the shape."""
    return traits_of(node.op).reads != "nothing"
