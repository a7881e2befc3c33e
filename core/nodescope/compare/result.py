"""Result: the comparison of an eager run with a compiled one, as data.

Invariant: read from two recordings alone; the same files give the same result.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from urllib.parse import quote

import msgspec

from nodescope.compare.align import Reason
from nodescope.compare.measure import Measure, worst_of
from nodescope.compare.pair_verdict import pair_verdict
from nodescope.compare.provenance import Stage, stages
from nodescope.compare.sides import Sides
from nodescope.compare.values import Pair, PairReader, sampled
from nodescope.compare.verdict import Verdict, verdict
from nodescope.errors import UsageError
from nodescope.ir.graph import LEAF_ROLES, Node, Role, Spec
from nodescope.ir.provenance import Fate, FateKind, KernelCost, MemoryReport
from nodescope.record.compiled_functions import CompiledFunction, called, cross_checked, functions
from nodescope.record.recording import Recording
from nodescope.record.rows import Timings


class ComparedValue(msgspec.Struct, frozen=True):
    """A value of a traced node in both runs.

    Attributes:
        port: The output port of the node.
        eager, compiled: The value's id in each run; 0 if that run does not have it.
        spec: Shape and dtype as traced.
        worst: The measure with the largest error over ``steps``; None if nothing was measured.
        steps: The training steps that were measured.
        why: Why the values could not be compared, or ``""``.
    """

    port: int
    eager: int
    compiled: int
    spec: Spec
    worst: Measure | None
    steps: tuple[int, ...]
    why: str = ""


class ComparedNode(msgspec.Struct, frozen=True):
    """A traced node: its fate in the compiled graph, and its counterpart in the eager run.

    Attributes:
        id, name, op, family, role, phase: As of the traced node.
        fate: As in `nodescope.ir.provenance.Fate.kind`.
        by: Pass and rule of each change, as ``pass/rule``.
        into: Ids of the final nodes that do its work.
        eager: Id of the matched node of the eager run, or 0.
        matched: The reason for the match: ``name``, ``order``, ``inputs``, or ``""`` if none.
        eager_ns: Median duration of an execution in the eager run.
        values: The values by output port.
    """

    id: int
    name: str
    op: str
    family: str
    role: Role
    phase: str
    fate: FateKind
    by: tuple[str, ...]
    into: tuple[int, ...]
    eager: int
    matched: Reason
    eager_ns: float | None
    values: tuple[ComparedValue, ...]


class Kernel(msgspec.Struct, frozen=True):
    """A node of the final graph.

    Attributes:
        id, name, op: As of the final node.
        pattern: The pattern of a fused kernel, such as ``softmax``; else ``""``.
        covers: Ids of the traced nodes that it replaces, without leaves.
        run: Id of the node in the compiled run, or 0 if it was not recorded.
        times: The number of executions.
        ns: Median duration of an execution.
        eager_ns: Sum of the median durations of the eager nodes that it replaces.
        cost: The compiler's estimate; None if there is none.
    """

    id: int
    name: str
    op: str
    pattern: str
    covers: tuple[int, ...]
    run: int
    times: int
    ns: float | None
    eager_ns: float | None
    cost: KernelCost | None


class ComparedFunction(msgspec.Struct, frozen=True):
    """One trace of a compiled function beside the eager run of the same code.

    Attributes:
        owner: The function and the number of its trace.
        base: The scope in which it is called.
        backend, fallback, compile_ns, unfused, memory: See `nodescope.events.Compiled`.
        steps: The training steps in which it ran.
        stages: The traced graph, then one stage for each pass that changed it.
        nodes, kernels: The traced nodes and the final nodes, in order.
        fates: The number of nodes with each fate, without leaves.
        beside: Ids of the eager run's nodes in its first step, in order of execution.
        unmatched: Those of ``beside`` that match no node of the function, without leaves.
        eager_ns, compiled_ns: Sums of the median durations of the matched eager nodes and of the
            kernels, observed node by node; for unobserved times, see `Comparison.timings`.
    """

    owner: str
    base: str
    backend: str
    fallback: str
    compile_ns: int
    steps: tuple[int, ...]
    stages: tuple[Stage, ...]
    nodes: tuple[ComparedNode, ...]
    kernels: tuple[Kernel, ...]
    fates: dict[FateKind, int]
    beside: tuple[int, ...]
    unmatched: tuple[int, ...]
    eager_ns: float
    compiled_ns: float
    unfused: tuple[str, ...]
    memory: MemoryReport | None


class Comparison(msgspec.Struct, frozen=True):
    """Two runs of a program.

    Attributes:
        eager, compiled: Run ids.
        functions: The compiled functions, in the order in which they were traced.
        notes: Sentences on differences between the runs as a whole: numbers of steps, failures.
        timings: The times of both forms unobserved; None if they were not measured.
        verdict: Whether the runs are equal, and if not, where and why they first differ.
    """

    eager: str
    compiled: str
    functions: tuple[ComparedFunction, ...]
    notes: tuple[str, ...] = ()
    timings: Timings | None = None
    verdict: Verdict | None = None


class ErrorHistory(msgspec.Struct, frozen=True):
    """A traced node's first value in both runs, step by step."""

    node: int
    steps: tuple[int, ...]
    measures: tuple[Measure, ...]


def compare(eager: Recording, compiled: Recording, *, samples: int = 3) -> Comparison:
    """Compare two runs of one program.

    Args:
        eager: The run without compilation.
        compiled: The run whose compiled functions ran as graphs.
        samples: The number of training steps to measure.

    Raises:
        UsageError: The second run has no compiled function.
        RecordingError: A recording is damaged.
    """
    compiled_functions = functions(compiled)
    _need(compiled_functions, compiled)
    reader = PairReader(eager, compiled)
    all_sides = [Sides(function_, reader, compiled_functions) for function_ in compiled_functions]
    return Comparison(
        eager.run().id,
        compiled.run().id,
        tuple(_function(sides, reader, samples) for sides in all_sides),
        _notes(eager, compiled),
        compiled.timings(),
        _judged(eager, compiled, all_sides, PairReader(eager, compiled)),
    )


def judge(eager: Recording, compiled: Recording) -> tuple[Verdict, str]:
    """The verdict alone, and the fragment of the page's address that shows it.

    The fragment is ``""`` unless the runs are an eager and a compiled one of the same functions.

    Raises:
        RecordingError: A recording is damaged.
    """
    compiled_functions = functions(compiled)
    checked = cross_checked(compiled)
    checks = checked.functions if checked is not None else ()
    differs = any(check.difference is not None for check in checks)
    if functions(eager) or not (compiled_functions or differs):
        names = ("first", "second") if checked is None else ("eager", "compiled")
        notes = _differing(eager, compiled, names)
        return pair_verdict(eager, compiled, notes, checked), ""
    reader = PairReader(eager, compiled)
    all_sides = [Sides(function_, reader, compiled_functions) for function_ in compiled_functions]
    judged = _judged(eager, compiled, all_sides, reader)
    if not compiled_functions:
        return judged, ""
    place = f"#compare={eager.run().id},{compiled.run().id}"
    for sides in all_sides:
        if judged.function and sides.function.owner == judged.function:
            place += f"&function={quote(judged.function)}"
            passed = {rule.partition("/")[0] for rule in judged.rules}
            shown = stages(sides.function)
            at = [i for i, stage in enumerate(shown) if stage.name in passed]
            match = sides.alignment.matches.get(judged.node)
            if at and not judged.kernel:
                place += f"&stage={at[-1]}"
            if match is not None:
                place += f"&left={match.eager}"
            elif judged.kernel:
                place += f"&right={judged.kernel}"
    return judged, place


def history(
    eager: Recording, compiled: Recording, owner: str, node: int, *, samples: int = 64
) -> ErrorHistory:
    """The errors of a traced node's first value over at most ``samples`` steps.

    Raises:
        UsageError: There is no such function or node.
    """
    compiled_functions = functions(compiled)
    function = next(
        (function_ for function_ in compiled_functions if function_.owner == owner), None
    )
    traced = None
    if function is not None:
        traced = next((n for n in function.traced.nodes if n.id == node), None)
    if function is None or traced is None:
        raise UsageError(f"no node {node} in a compiled function {owner!r}")
    reader = PairReader(eager, compiled)
    sides = Sides(function, reader, compiled_functions)
    pair = sides.pair(traced, 0)
    comparable = pair.eager is not None and pair.compiled is not None
    chosen = sampled(reader.of_both(sides.steps), samples) if comparable else ()
    return ErrorHistory(node, chosen, tuple(reader.measure(pair, step) for step in chosen))


def _need(compiled_functions: Sequence[CompiledFunction], compiled: Recording) -> None:
    if not compiled_functions:
        raise UsageError(
            f"{compiled.run().name}: no compiled function ran in this recording",
            hint="decorate the function to compare with @ns.compile, and call it",
        )


def _notes(
    eager: Recording, compiled: Recording, sides: tuple[str, str] = ("eager", "compiled")
) -> tuple[str, ...]:
    notes = []
    for side, run in zip(sides, (eager.run(), compiled.run()), strict=True):
        if run.error:
            notes.append(f"The {side} run failed: {run.error}")
        elif run.status:
            notes.append(f"The {side} run ended with status {run.status}")
    eager_steps, two = len(eager.steps()), len(compiled.steps())
    if eager_steps != two:
        steps = f"{eager_steps} step{'' if eager_steps == 1 else 's'}"
        notes.append(f"The {sides[0]} run has {steps}, the {sides[1]} run {two}")
    return tuple(notes)


def _judged(
    eager: Recording, compiled: Recording, all_sides: Sequence[Sides], reader: PairReader
) -> Verdict:
    logs = called(eager), called(compiled)
    both = None if logs[0] is None or logs[1] is None else (logs[0], logs[1])
    notes = _differing(eager, compiled)
    return verdict(cross_checked(compiled), all_sides, reader, notes, both)


def _differing(
    eager: Recording, compiled: Recording, sides: tuple[str, str] = ("eager", "compiled")
) -> tuple[str, ...]:
    """Notes on differences between the runs; none if both fail with the same error."""
    errors = [re.sub(r" \([^()]*:\d+\)", "", run.run().error) for run in (eager, compiled)]
    return () if errors[0] and errors[0] == errors[1] else _notes(eager, compiled, sides)


def _function(sides: Sides, reader: PairReader, samples: int) -> ComparedFunction:
    function = sides.function
    measured = reader.to_measure(sides.steps, samples)
    compiled = function.compiled
    fates = {fate.node: fate for fate in compiled.fates}
    nodes = tuple(_node(node, fates, sides, reader, measured) for node in function.traced.nodes)
    kernels = _kernels(sides, reader)
    matched = {match.eager for match in sides.alignment.matches.values()}
    inner = [node for node in nodes if node.role not in LEAF_ROLES]
    return ComparedFunction(
        owner=function.owner,
        base=sides.alignment.base,
        backend=compiled.backend,
        fallback=compiled.fallback,
        compile_ns=compiled.compile_ns,
        steps=sides.steps,
        stages=stages(function),
        nodes=nodes,
        kernels=kernels,
        fates=dict(Counter(node.fate for node in inner)),
        beside=tuple(node.id for node in sides.eager),
        unmatched=tuple(
            node.id for node in sides.eager if node.id not in matched and not node.is_leaf
        ),
        eager_ns=sum(node.eager_ns or 0.0 for node in inner),
        compiled_ns=sum(kernel.ns or 0.0 for kernel in kernels),
        unfused=compiled.unfused,
        memory=compiled.memory,
    )


def _node(
    node: Node,
    fates: Mapping[int, Fate],
    sides: Sides,
    reader: PairReader,
    steps: tuple[int, ...],
) -> ComparedNode:
    fate = fates.get(node.id) or Fate(node.id, "kept", ())
    match = sides.alignment.matches.get(node.id)
    return ComparedNode(
        id=node.id,
        name=node.name,
        op=node.op,
        family=node.family,
        role=node.role,
        phase=node.phase,
        fate=fate.kind,
        by=fate.by,
        into=fate.into,
        eager=match.eager if match else 0,
        matched=match.reason if match else "",
        eager_ns=reader.eager_times.get(match.eager) if match else None,
        values=tuple(
            _value(sides.pair(node, port), reader, steps) for port in range(len(node.outputs))
        ),
    )


def _kernels(sides: Sides, reader: PairReader) -> tuple[Kernel, ...]:
    computed = {node.id for node in sides.function.traced.nodes if not node.is_leaf}
    costs = sides.function.compiled.costs
    kernels = []
    for node in sides.function.final.nodes:
        if node.is_leaf:
            continue
        ran = sides.run.get(node.id)
        covered = [node_id for node_id in node.origin if node_id in computed]
        eager = [node_id.id for node_id in map(sides.eager_of, covered) if node_id is not None]
        known = [reader.eager_times[node_id] for node_id in eager if node_id in reader.eager_times]
        durations = reader.compiled_durations.get(ran.id, []) if ran else []
        kernels.append(
            Kernel(
                id=node.id,
                name=node.name,
                op=node.op,
                pattern=str(node.attrs.get("pattern", "")) if node.op == "fused" else "",
                covers=tuple(covered),
                run=ran.id if ran else 0,
                times=len(durations),
                ns=float(median(durations)) if durations else None,
                eager_ns=sum(known) if known else None,
                cost=costs.get(node.id),
            )
        )
    return tuple(kernels)


def _value(pair: Pair, reader: PairReader, steps: tuple[int, ...]) -> ComparedValue:
    comparable = pair.eager is not None and pair.compiled is not None
    measures = [reader.measure(pair, step) for step in steps] if comparable else []
    why = pair.why or ("" if pair.eager else "no match in the eager run")
    if comparable and not steps:
        why = "no node of the function runs, so there is no step to measure"
    return ComparedValue(
        port=pair.port,
        eager=pair.eager_value,
        compiled=pair.compiled_value,
        spec=pair.spec,
        worst=worst_of(measures),
        steps=steps if measures else (),
        why=why,
    )
