"""Pipeline: runs the passes one after the other, and verifies the graph before and after each.

Invariant: the input graph is never changed; the output graph is verified, and each of its nodes has
its origins.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodescope import passes
from nodescope.errors import GraphError, UsageError
from nodescope.ir.graph import Graph
from nodescope.ir.provenance import Rewrite
from nodescope.ir.verify import verify
from nodescope.ops.checking import inferred
from nodescope.ops.op import Array
from nodescope.passes.draft import Draft
from nodescope.passes.fates import Provenance, Unfused, with_origins

_ROUNDS = 4  # of the passes that run again


@dataclass(frozen=True)
class LoweringOptions:
    """Options of a lowering.

    Attributes:
        unsafe: Names of IEEE-unsafe rules that may be used; ``"all"`` for every one.
        fold_bytes: Constants beyond this size are not folded.
        memory_bytes: Limit beyond which values are recomputed rather than kept; None for no limit.
        backend: The back end for which kernels are built: ``numpy`` or ``c``.
    """

    unsafe: frozenset[str] = frozenset()
    fold_bytes: int = 1 << 20
    memory_bytes: int | None = None
    backend: str = "numpy"

    def allows(self, rule: str) -> bool:
        """Whether an IEEE-unsafe rule may be used."""
        return rule in self.unsafe or "all" in self.unsafe


@dataclass(frozen=True)
class PassOutcome:
    """The effect of one pass.

    Attributes:
        name: The pass.
        before, after: The graph; the same object if nothing was changed.
        rewrites: Its changes.
        notes: Further remarks.
        took_ns: Duration in nanoseconds, without verification.
        unfused: Pairs of nodes that it did not fuse, and why.
    """

    name: str
    before: Graph
    after: Graph
    rewrites: tuple[Rewrite, ...]
    notes: tuple[str, ...]
    took_ns: int
    unfused: tuple[Unfused, ...] = ()


@dataclass(frozen=True)
class Lowered:
    """A graph after the passes.

    Attributes:
        traced: The graph before the first pass.
        graph: The graph after the last pass, of kind ``compiled``; each node's ``origin`` is set.
            Inputs are those of the traced graph; outputs correspond by position.
        arrays: Constants by value id.
        stages: Outcomes of the passes, in order.
        options: The options.
    """

    traced: Graph
    graph: Graph
    arrays: Mapping[int, Array]
    stages: tuple[PassOutcome, ...] = ()
    options: LoweringOptions = field(default_factory=LoweringOptions)

    @functools.cached_property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """Every change, in order."""
        return tuple(rewrite for stage in self.stages for rewrite in stage.rewrites)

    @functools.cached_property
    def provenance(self) -> Provenance:
        """The provenance of nodes and values."""
        return Provenance(self.traced, self.graph, self.rewrites)


def lower(
    graph: Graph,
    arrays: Mapping[int, Array],
    chosen: Sequence[str] | None = None,
    options: LoweringOptions | None = None,
) -> Lowered:
    """Run passes over a graph.

    Args:
        graph: Nodes in topological order.
        arrays: The graph's constants by value id; others are left out.
        chosen: Names of passes, which run in this order; the default ones if None.
        options: The options.

    Raises:
        GraphError: A pass made a malformed graph; the message names the pass and the node.
        RegistryError: A pass does not exist.
    """
    options = options or LoweringOptions()
    first = 1 + max((*_ids(graph), *(value.id for value in graph.values), 0))
    fresh = itertools.count(first).__next__
    # Checks the structure only: the graph's specs were inferred when it was traced, or checked when
    # it was read.
    _verified(graph, graph, "before the first pass")
    stages: list[PassOutcome] = []
    produced = {value for node in graph.nodes for value in node.outputs}
    arrays = {value: array for value, array in arrays.items() if value in produced}
    now, constants = graph, dict(arrays)
    usual = [graph_pass for graph_pass in passes.all_passes() if graph_pass.default]
    names = tuple(graph_pass.name for graph_pass in usual) if chosen is None else tuple(chosen)
    draft = Draft(graph, arrays, fresh, "", options, graph, names)
    if chosen is None:
        last = max((graph_pass.stage for graph_pass in usual if graph_pass.again), default=0)
        early = [graph_pass for graph_pass in usual if graph_pass.stage <= last]
        now, constants = _rounds(early, draft, now, constants, stages, _ROUNDS)
        rest = [graph_pass for graph_pass in usual if graph_pass.stage > last]
    else:
        rest = [passes.get(name) for name in chosen]
    for graph_pass in rest:
        now, constants = _apply(graph_pass, draft, now, stages)
    provenance = Provenance(graph, now, [r for stage in stages for r in stage.rewrites])
    final = with_origins(now, {node.id: provenance.origin(node.id) for node in now.nodes})
    final = _replace_kind(final)
    return Lowered(graph, final, constants, tuple(stages), options)


def settled(
    graph: Graph,
    arrays: Mapping[int, Array],
    names: Sequence[str],
    last: Sequence[str],
    options: LoweringOptions,
    rounds: int,
    copied: Iterable[int] = (),
) -> tuple[Graph, dict[int, Array], list[Rewrite]]:
    """Run passes over a body repeatedly while they change it, then others once.

    Args:
        graph: The body.
        arrays: Its constants by value id.
        names: Names of the passes that run as long as they change something.
        last: Names of those that run once after them, if there are changes or bodies.
        options: The options.
        rounds: Upper limit of repetitions.
        copied: See `Draft.copied`.

    Returns:
        The graph, the same object if nothing was changed; its constants; and all changes.

    Raises:
        GraphError: See `lower`.
    """
    _verified(graph, graph, "before the first pass")
    first = 1 + max((*_ids(graph), *(value.id for value in graph.values), 0))
    draft = Draft(
        graph, arrays, itertools.count(first).__next__, "", options, graph, (*names, *last)
    )
    draft.inside, draft.copied = True, frozenset(copied)
    stages: list[PassOutcome] = []
    chosen = [passes.get(name) for name in names]
    now, constants = _rounds(chosen, draft, graph, dict(arrays), stages, rounds, every=True)
    for pass_name in last:
        now, constants = _apply(passes.get(pass_name), draft, now, stages)
    return now, constants, [rewrite for stage in stages for rewrite in stage.rewrites]


def _rounds(
    chosen: Sequence[passes.GraphPass], draft: Draft, graph: Graph, constants: dict[int, Array],
    stages: list[PassOutcome], rounds: int, every: bool = False,
) -> tuple[Graph, dict[int, Array]]:  # fmt: skip
    """Run passes up to ``rounds`` times; ``every``: including those that usually run once."""
    now = graph
    left: dict[str, Graph] = {}
    for number in range(rounds):
        before = now
        for graph_pass in chosen:
            # A pass would leave its own result unchanged, if no other pass has changed it since.
            if left.get(graph_pass.name) is not now and (graph_pass.again or every or not number):
                now, constants = _apply(graph_pass, draft, now, stages)
                left[graph_pass.name] = now
        if now is before:
            break
    return now, constants


def _apply(
    graph_pass: passes.GraphPass, draft: Draft, graph: Graph, stages: list[PassOutcome]
) -> tuple[Graph, dict[int, Array]]:
    start = time.perf_counter_ns()
    draft.begin(graph_pass.name)
    graph_pass.run(draft)
    after, constants = draft.finish()
    took = time.perf_counter_ns() - start
    if after is not graph:
        _verified(after, graph, f"after the pass {graph_pass.name!r}")
    stages.append(
        PassOutcome(
            graph_pass.name, graph, after, tuple(draft.rewrites), tuple(draft.notes), took,
            tuple(draft.apart),
        )
    )  # fmt: skip
    return after, constants


def _verified(graph: Graph, before: Graph, when: str) -> None:
    """Check the specs of new or changed nodes only."""
    known = frozenset(map(id, before.nodes))
    try:
        verify(graph, inferred, known)
    except GraphError as error:
        raise GraphError(
            f"{when}: {error.message}", source=error.source,
            hint="this is a bug in nodescope; compile with passes=() to continue without passes",
        ) from error  # fmt: skip


def _ids(graph: Graph) -> list[int]:
    return [node.id for node in graph.nodes]


def _replace_kind(graph: Graph) -> Graph:
    return Graph(
        id=graph.id, kind="compiled", inputs=graph.inputs, outputs=graph.outputs,
        nodes=graph.nodes, values=graph.values, constants=graph.constants,
    )  # fmt: skip


def names_of(setting: Any, parameter: str) -> tuple[str, ...]:
    """Names as given by the user: one, several separated by commas, or any iterable.

    Raises:
        UsageError: The names are not text.
    """
    try:
        names = setting.split(",") if isinstance(setting, str) else list(setting)
    except TypeError:
        names = [setting]
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"{parameter} takes names, not {name!r}")
    return tuple(stripped for name in names if (stripped := name.strip()))


def chosen_of(setting: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """The value of ``passes=`` of `nodescope.compile`: names, or None for the default passes.

    Args:
        setting: None or ``"default"``; ``"none"``; names, where those with a leading minus are
            removed from the default ones.

    Raises:
        RegistryError: A pass does not exist.
        UsageError: Names with and without a minus are mixed, or the value is not a name.
    """
    if setting is None:
        return None
    names = names_of(setting, "passes")
    if names in (("none",), ("default",)):
        return () if names == ("none",) else None
    without = {name.removeprefix("-") for name in names if name.startswith("-")}
    for name in names:
        passes.get(name.removeprefix("-"))
    if not without:
        return names
    if len(without) != len(names):
        raise UsageError(
            "passes: names of passes to run and of passes to omit are mixed",
            hint='give only names, or only names with a minus: passes=("-fuse",)',
        )
    return tuple(graph_pass.name for graph_pass in passes.all_passes()
                 if graph_pass.default and graph_pass.name not in without)  # fmt: skip
