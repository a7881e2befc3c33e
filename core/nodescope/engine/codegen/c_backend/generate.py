"""Generate: C source for a lowered graph, with one function per kernel and per segment of the plan.

Views are address arithmetic and cost nothing. Nodes without a C implementation divide the plan into
segments. Equal kernels share one function.

Invariant: a segment calls the same functions on the same layouts as the individually exposed
kernels, so results are bit-identical.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from nodescope.engine.codegen.c_backend import (
    arrays,
    helpers,
    kernel,
    layouts,
    pool,
    prelude,
    primitives,
    products,
    scan,
    tables,
    texts,
)
from nodescope.engine.codegen.c_backend.expressions import CTYPES
from nodescope.engine.codegen.c_backend.unit import (
    NoKernel,
    Sizes,
    Unit,
    Val,
    compact,
    same_strides,
)
from nodescope.ir.graph import GIVEN, Node, TensorSpec
from nodescope.ops.calls import Call, call_of
from nodescope.ops.op import Array
from nodescope.passes.memory import MemoryPlan, ProgramStep, plan_memory
from nodescope.passes.pipeline import Lowered


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of a value of the plan: elements in the memory of its root.

    Attributes:
        root: The value that owns the memory.
        loose: Whether it is a number kept as a double, which promotes weakly.
    """

    root: int
    spec: TensorSpec
    strides: Sizes
    offset: int = 0
    loose: bool = False

    @property
    def whole(self) -> bool:
        """Whether the value is dense and starts at the beginning."""
        return self.offset == 0 and same_strides(
            self.spec.shape, self.strides, compact(self.spec.shape)
        )


@dataclass(frozen=True, slots=True)
class Function:
    """A C function for nodes.

    Attributes:
        name: Its name in C.
        scratch: Bytes of working memory that it needs.
        fails: Whether it may return a number other than 0.
        count: Number of elements, if the function takes that instead of working memory and thus
            serves arrays of any size; else 0.
    """

    name: str
    scratch: int
    fails: bool
    count: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One node of the plan, or a copy at its end.

    Attributes:
        node: The node; None for a copy.
        call: How the node runs in Python.
        function: The C function; None for a view, or for a node that C cannot compute.
        inputs, outputs: Places of its operands and results.
        reason: Why C cannot compute it, or ``""``.
    """

    node: Node | None
    call: Call | None
    function: Function | None
    inputs: tuple[Spot, ...]
    outputs: tuple[Spot, ...]
    reason: str = ""


@dataclass
class KernelPlan:
    """The execution plan of a graph, and its C text.

    Attributes:
        steps: The steps, in order.
        segments: Ranges of steps in C as (first, last + 1); those between them run in Python.
        slots: Positions in the table of addresses, by root; position 0 is the arena.
        results: Roots of results that are allocated for each call.
        outputs: The spot of each output of the graph.
        constants: Arrays by root.
        memory: The layout of the arena.
        texts: C texts without comments; the first contains the segments, the others only kernels.
        linked: Kernels in other texts called by the first, by text.
        parts: The texts with comments.
    """

    lowered: Lowered
    steps: list[Step] = field(default_factory=list)
    segments: list[tuple[int, int]] = field(default_factory=list)
    slots: dict[int, int] = field(default_factory=dict)
    results: list[int] = field(default_factory=list)
    outputs: list[Spot] = field(default_factory=list)
    constants: dict[int, Array] = field(default_factory=dict)
    memory: MemoryPlan = field(default_factory=MemoryPlan)
    texts: tuple[str, ...] = ()
    linked: tuple[tuple[str, ...], ...] = ()
    parts: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The source for reading, with comments."""
        return texts.readable("".join(self.parts))


def plan_of(lowered: Lowered) -> KernelPlan:
    """The plan of a lowered graph."""
    return _Planner(lowered).made()


class _Planner:
    def __init__(self, lowered: Lowered) -> None:
        self.plan = KernelPlan(lowered)
        self.graph = lowered.graph
        self.specs = {value.id: value.tensor for value in self.graph.values}
        self.spots: dict[int, Spot] = {}
        self.bodies: dict[tuple[str, ...], tuple[Function, list[str]]] = {}
        self.needs: set[str] = set()
        self.scratch: dict[int, int] = {}  # by position of a step

    def made(self) -> KernelPlan:
        plan = self.plan
        for value in self.graph.inputs:
            spec = self.specs[value]
            loose = spec.shape == () and spec.dtype in ("float32", "float64")
            self.spots[value] = Spot(value, spec, compact(spec.shape), loose=loose)
        for value, array in plan.lowered.arrays.items():
            plan.constants[value] = array
            self.spots[value] = Spot(value, self.specs[value], compact(array.shape))
        for node in self.graph.nodes:
            if node.op not in GIVEN:
                self._add(node)
        self._give_out()
        self._place()
        self._write()
        return plan

    # Nodes

    def _add(self, node: Node) -> None:
        call = call_of(node)
        inputs = tuple(self.spots[argument] for argument in call.args if isinstance(argument, int))
        outs = tuple(self.specs[value] for value in node.outputs)
        view = self._view(node, call, inputs, outs)
        if view is not None:
            self.spots[node.outputs[0]] = view
            self.plan.steps.append(Step(node, call, None, inputs, (view,)))
            return
        outputs = tuple(
            Spot(value, spec, compact(spec.shape))
            for value, spec in zip(node.outputs, outs, strict=True)
        )
        self.spots.update(zip(node.outputs, outputs, strict=True))
        reason, function = "", None
        try:
            function = self._function(node, call, inputs, outs)
        except NoKernel as why:
            reason = str(why)
        self.plan.steps.append(Step(node, call, function, inputs, outputs, reason))

    def _view(
        self, node: Node, call: Call, inputs: tuple[Spot, ...], outs: tuple[TensorSpec, ...]
    ) -> Spot | None:
        if node.op not in layouts.VIEWS or len(inputs) != 1 or inputs[0].loose:
            return None
        x, out = inputs[0], outs[0]
        if x.spec.dtype not in CTYPES:
            return None
        shape = tuple(out.shape)
        layout = layouts.viewed(node.op, call.attrs, tuple(x.spec.shape), x.strides, shape)
        if layout is None:
            return None
        return Spot(x.root, out, layout[0], x.offset + layout[1])

    def _function(
        self, node: Node, call: Call, inputs: tuple[Spot, ...], outs: tuple[TensorSpec, ...]
    ) -> Function:
        if any(operand.spec.dtype not in CTYPES for operand in inputs):
            raise NoKernel("a dtype that C does not have")
        if node.op == "scan":
            body = scan.compose(call, inputs, outs)
        else:
            unit = Unit()
            values = [argument for argument in call.args if isinstance(argument, int)]
            env: dict[int, Val] = {}
            for value, spot in zip(values, inputs, strict=True):
                strides = None if spot.loose else spot.strides
                operand = unit.input(spot.spec, strides, spot.loose)
                env.setdefault(value, operand)
            specs = {v: self.specs[v] for v in (*values, *node.outputs)}
            primitives.lower_node(unit, call, env, specs)
            unit.outputs = [env[value] for value in node.outputs]
            kernel.settle(unit)
            body = kernel.compose(unit)
        return self._registered(body, node)

    def _registered(self, body: kernel.Body, node: Node | None) -> Function:
        self.needs |= body.needs
        lines = texts.function(body)
        known = self.bodies.get(lines)
        if known is None:
            name = f"ns_k{len(self.bodies)}"
            known = self.bodies[lines] = Function(name, body.scratch, body.fails), []
        if node is not None:
            known[1].append(texts.comment_of(node))
        return replace(known[0], count=body.count)

    # Results

    def _give_out(self) -> None:
        plan = self.plan
        fed = set(self.graph.inputs)
        python = {
            value for step in plan.steps if step.function is None and step.reason and step.node
            for value in step.node.outputs
        }  # fmt: skip
        for value in self.graph.outputs:
            spot = self.spots[value]
            if value not in fed and value not in plan.constants and value not in python:
                if spot.whole and spot.root == value and value not in plan.results:
                    plan.results.append(value)
                else:
                    spot = self._copied(spot)
            plan.outputs.append(spot)

    def _copied(self, spot: Spot) -> Spot:
        """A copy of a view, or of a value that is returned twice."""
        unit = Unit()
        unit.outputs = [unit.input(spot.spec, spot.strides)]
        kernel.settle(unit)
        function = self._registered(kernel.compose(unit), None)
        root = 1 + max((*self.specs, *self.spots, *self.plan.results, 0))
        copy = Spot(root, spot.spec, compact(spot.spec.shape))
        self.spots[root] = copy
        self.plan.steps.append(Step(None, None, function, (spot,), (copy,)))
        self.plan.results.append(root)
        return copy

    # Memory

    def _place(self) -> None:
        plan = self.plan
        slot = 1
        for roots in (self.graph.inputs, plan.results, plan.constants):
            for root in roots:
                plan.slots[root] = slot
                slot += 1
        moments, sizes = [], {}
        for i, step in enumerate(plan.steps):
            makes: list[int] = []
            if step.reason:
                for spot in step.outputs:
                    plan.slots[spot.root] = slot
                    slot += 1
            elif step.function is not None:
                for spot in step.outputs:
                    if spot.root not in plan.slots:
                        sizes[spot.root] = _bytes(spot.spec)
                        makes.append(spot.root)
                if step.function.scratch:
                    sizes[-1 - i] = step.function.scratch
                    makes.append(-1 - i)
            moments.append(ProgramStep(tuple(makes), tuple(spot.root for spot in step.inputs)))
        plan.memory = plan_memory(moments, sizes)
        first = None
        for i in range(len(plan.steps) + 1):
            inside = i < len(plan.steps) and not plan.steps[i].reason
            if inside and first is None:
                first = i
            elif not inside and first is not None:
                plan.segments.append((first, i))
                first = None

    # Text

    def _write(self) -> None:
        plan = self.plan
        parts: list[str] = []
        shares: list[list[str]] = [[] for _ in range(texts.shares(self.bodies))]
        names: list[list[str]] = [[] for _ in shares]
        weights = [0] * len(shares)
        for lines, (function, notes) in self.bodies.items():
            text = "\n".join((*lines, "")).replace("@k", function.name)
            words = "".join(f"\n * {note}" for note in notes)
            parts += [f"\n/*{words}\n */\n" if words else "\n", text]
            lightest = weights.index(min(weights))
            weights[lightest] += texts.weight(lines)
            shares[lightest].append(text)
            names[lightest].append(function.name)
        runs: list[str] = []
        for k, (first, last) in enumerate(plan.segments):
            run = [f"NS_EXPORT i64 ns_run{k}(char **t, i64 *s) {{"]
            commented = list(run)
            if last - first >= tables.FEWEST:
                rows = [self._row(i, step, self._number(i)) for i, step in
                        enumerate(plan.steps[first:last], first)]  # fmt: skip
                run += tables.statements(rows)
                commented += tables.statements(rows, commented=True)
                first = last
            for i in range(first, last):
                step = plan.steps[i]
                called = self._called(i, step, self._number(i))
                run += called
                commented += (
                    [f"/* {texts.comment_of(step.node)} */", *called] if step.node else called
                )
            closing = ["return 0;", "}", ""]
            parts += ["\n", "\n".join(commented + closing)]
            runs.append("\n".join(run + closing))
        if plan.segments:
            runs.append(texts.CALL)
        plan.linked = tuple(tuple(group) for group in names[1:])
        link = texts.link([name for names_of in plan.linked for name in names_of])
        plan.texts = tuple(
            self._complete("\n".join([*share, *([link, texts.TAKE, *runs] if not k else [])]))
            for k, share in enumerate(shares)
        )
        plan.parts = tuple(parts)

    def _complete(self, body: str) -> str:
        """A text preceded by the definitions of everything that it calls."""
        used = [need for need in self.needs if texts.marker(need) in body]
        helping = helpers.text({*used, *(f"0columns_{need[-3:]}" for need in used
                                         if need.startswith("conv"))})  # fmt: skip
        gemms = "ns_sgemm(" in body + helping or "ns_dgemm(" in body + helping
        head = (products.HEAD if gemms else "") + (pool.SPLIT if "ns_split(" in body else "")
        head += helping
        snippet = arrays.SNIPPET if "ns_take" in body else ""
        return prelude.complete(f"{snippet}{head}{body}")

    def _number(self, i: int) -> int:
        if not hasattr(self, "_numbers"):
            count = 0
            self._numbers: list[int] = []
            for step in self.plan.steps:
                self._numbers.append(count)
                count += step.node is not None
        return self._numbers[i]

    def _row(self, i: int, step: Step, place: int) -> tables.TableRow:
        """A step of a long run, as a row of its table."""
        comment = texts.comment_of(step.node) if step.node else ""
        if step.function is None:
            return tables.TableRow("", place, True, (-1, 0), (), comment)
        scratch = (-1, step.function.count)
        if step.function.scratch:
            scratch = (0, self.plan.memory.offsets[-1 - i])
        pointers = tuple(map(self._pointer, (*step.inputs, *step.outputs)))
        timed = step.node is not None
        return tables.TableRow(step.function.name, place, timed, scratch, pointers, comment)

    def _called(self, i: int, step: Step, place: int) -> list[str]:
        if step.function is None:
            return [f"if (s) s[{2 * place}] = s[{2 * place + 1}] = ns_now();"]
        pointers = ", ".join(self._address(spot) for spot in (*step.inputs, *step.outputs))
        scratch = f"(char *){step.function.count}"
        if step.function.scratch:
            scratch = f"t[0] + {self.plan.memory.offsets[-1 - i]}"
        call = f"{step.function.name}(p, {scratch})"
        call = f"if ({call}) return {place + 1};" if step.function.fails else f"{call};"
        before = after = ""
        if step.node is not None:
            before = f"if (s) s[{2 * place}] = ns_now(); "
            after = f" if (s) s[{2 * place + 1}] = ns_now();"
        return [f"{{ char *p[] = {{{pointers}}}; {before}{call}{after} }}"]

    def _pointer(self, spot: Spot) -> tuple[int, int]:
        """The slot of a value's memory, and the offset there, in bytes."""
        offset = spot.offset * np.dtype(spot.spec.dtype).itemsize
        slot = self.plan.slots.get(spot.root)
        return (0, self.plan.memory.offsets[spot.root] + offset) if slot is None else (slot, offset)

    def _address(self, spot: Spot) -> str:
        slot, offset = self._pointer(spot)
        if not slot:
            return f"t[0] + {offset}"
        return f"t[{slot}] + {offset}" if offset else f"t[{slot}]"


def _bytes(spec: TensorSpec) -> int:
    return max(math.prod(spec.shape) * np.dtype(spec.dtype).itemsize, 1)
