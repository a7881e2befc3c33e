"""Observing: runs a lowered graph once, plainly, noting each step and the layout of its results.

The layout of NumPy's results follows from that of their operands, and later sums and products
depend on it to the last bit. So layouts are observed, not guessed: every call whose feeds have the
same layout repeats the observed steps.

Invariant: the observed run is a run like any other; its results are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nodescope.engine.codegen.numpy_backend.expand import expansion
from nodescope.engine.codegen.numpy_backend.steps import (
    CALL,
    COPY,
    INTO,
    OVER,
    PUT,
    VIEW,
    Box,
    Group,
    Loop,
    ProgramArray,
    Step,
    as_arrays,
    boxed,
    shared,
)
from nodescope.ir.graph import GIVEN, Graph, Node
from nodescope.ops.calls import Call, Scalar, call_of
from nodescope.ops.control import constants_of, plan_of
from nodescope.ops.op import Array
from nodescope.ops.plan import Plan

_SHORT = 3  # loops of fewer iterations do not get their own body
_LONG = 800  # calls in all iterations from which a separate text is generated


class ObservedProgram:
    """The observed steps of a program.

    Attributes:
        feeds: The graph's inputs.
        constants: Values whose array is part of the program.
        groups: The steps, node by node.
        outputs: The graph's outputs.
    """

    def __init__(self) -> None:
        self.feeds: list[ProgramArray] = []
        self.constants: dict[ProgramArray, Any] = {}
        self.groups: list[Group] = []
        self.outputs: list[ProgramArray] = []


class ProgramRecorder:
    """Runs nodes and notes their steps; the interface for writing expansions.

    Args:
        once: Runs a program on feeds; used for long loops as soon as their body is observed.
    """

    def __init__(self, once: Callable[[ObservedProgram, list[Any]], list[Array]]) -> None:
        self.program = ObservedProgram()
        self._once = once
        self._count = 0
        self._steps: list[Step | Loop] = []
        self._loops: list[Loop] = []
        self._fresh: list[ProgramArray] = []

    # Values

    def value(
        self, array: Any, roots: tuple[ProgramArray, ...] | None = None, outside: bool = False
    ) -> ProgramArray:
        """A new value."""
        self._count += 1
        loop = self._loops[-1] if self._loops and not outside else None
        value = ProgramArray(self._count, array, roots, loop)
        self._fresh.append(value)
        return value

    def constant(self, array: Array) -> ProgramArray:
        """An array that is part of the program."""
        value = self.value(array, outside=True)
        self.program.constants[value] = array
        return value

    # Steps, for expansions

    def into(
        self, fn: Any, *args: Any, text: str = "", elementwise: bool = True, **keywords: Any
    ) -> ProgramArray:
        """Call a function that takes ``out=``; a ufunc unless ``elementwise`` is False."""
        args = boxed(fn, args)
        result = fn(*map(_given, args), **keywords)
        return self._add(INTO, fn, text or fn.__name__, args, keywords, result, elementwise)

    def over(self, fn: Any, x: ProgramArray, *operands: Any) -> ProgramArray:
        """Call a ufunc whose result replaces ``x``, a value made only for this call."""
        operands = boxed(fn, (x, *operands))[1:]
        result = fn(x.array, *map(_given, operands), out=x.array)
        value = self.value(result, x.roots)
        self._steps.append(Step(OVER, fn, fn.__name__, (x, *operands), {}, (value,)))
        return value

    def free(self, *values: ProgramArray) -> None:
        """Release values that no later step of the node reads, so that the next step can reuse
        their memory, which is in the caches and need not be provided by the system.
        """
        for value in values:
            if value not in self.program.constants:
                value.array = None

    def put(self, fn: Any, args: tuple[Any, ...], boxes: tuple[tuple[Box, ProgramArray], ...], *,
            plus: bool, **keywords: Any) -> ProgramArray:  # fmt: skip
        """An array of zeros that contains values side by side, as ``fn(*args)`` returns it.

        Args:
            fn: Computes the result while it is observed.
            args: Its operands.
            boxes: The place of each value.
            plus: Whether 0 was added to each value, which turns -0 into 0.
            keywords: Further arguments of ``fn``.
        """
        value = self.value(np.asarray(fn(*map(_given, args), **keywords)))
        value.boxes = boxes
        where = {"boxes": tuple(box for box, _ in boxes), "plus": plus}
        values = tuple(value for _, value in boxes)
        self._steps.append(Step(PUT, fn, "put", values, where, (value,)))
        return value

    def copy(self, x: ProgramArray, dtype: Any = None) -> ProgramArray:
        """A copy, in C order; with a dtype, a conversion that keeps the order."""
        if dtype is None:
            return self._add(COPY, np.copyto, "copy", (x,), {}, x.array.copy(), True)
        copy = x.array.astype(dtype)
        return self._add(COPY, np.copyto, "astype", (x,), {"dtype": np.dtype(dtype)}, copy, True)

    def view(
        self, fn: Callable[[Any], Any], x: ProgramArray, text: str, elementwise: bool = False
    ) -> ProgramArray:
        """A result that may share the memory of ``x``; ``elementwise`` says that it has the same
        elements in the same places.
        """
        view = np.asarray(fn(x.array))
        if fn is not _itself and not shared(view, x.array):
            return self._add(CALL, fn, text, (x,), {}, view, False)
        value = self.value(view, x.roots)
        self._steps.append(Step(VIEW, fn, text, (x,), {}, (value,), elementwise))
        return value

    def call(
        self, fn: Any, args: tuple[Any, ...], keywords: Mapping[str, Any], *,
        maybe: bool = False, text: str = "", elementwise: bool = False,
    ) -> tuple[ProgramArray, ...]:  # fmt: skip
        """Call any function; ``maybe`` says that in other calls its results may be its operands."""
        arguments = list(map(_given, args))
        result = fn(*arguments, **keywords)
        several = result.__class__ is tuple
        arrays = as_arrays(result)
        operands = [argument for argument in args if argument.__class__ is ProgramArray]
        outs = []
        for array in arrays:
            owners = [r for v in operands if maybe or shared(array, v.array) for r in v.roots]
            out = self.value(array)
            out.roots = (out, *dict.fromkeys(owners))
            outs.append(out)
        name = text or getattr(fn, "__name__", "call")
        self._steps.append(
            Step(CALL, fn, name, args, dict(keywords), tuple(outs), elementwise, several, maybe)
        )
        return tuple(outs)

    def _add(
        self, kind: str, fn: Any, text: str, args: Any, keywords: Any, array: Any, elementwise: bool
    ) -> ProgramArray:
        value = self.value(np.asarray(array))
        self._steps.append(Step(kind, fn, text, tuple(args), keywords, (value,), elementwise))
        return value

    # Nodes

    def run(self, plan: Plan, feeds: list[Any]) -> list[Array]:
        """Run a plan, noting everything; return the outputs. Empties the list of feeds."""
        env: dict[int, ProgramArray] = {v: self.constant(a) for v, a in plan.constants.items()}
        for number, feed in zip(plan.fed, feeds, strict=True):
            env[number] = self.value(feed)
            self.program.feeds.append(env[number])
        feeds.clear()
        feed = None
        for number, call in enumerate(plan.calls):
            self._fresh = []
            self._steps = []
            outs = self.node(call, env)
            env.update(zip(call.node.outputs, outs, strict=True))
            group = Group(number, title(call.node), self._steps, outs)
            group.whole = all(isinstance(s, Step) and s.elementwise for s in self._steps)
            self.program.groups.append(group)
            for fresh in self._fresh:
                if fresh not in outs and fresh not in self.program.constants:
                    fresh.array = None
            for value in call.drop:
                env.pop(value).array = None
        self.program.outputs = [env[value] for value in plan.outputs]
        outputs = [value.array for value in self.program.outputs]
        for computed in env.values():
            computed.array = None
        _drop_unused(self.program)
        return outputs

    def node(self, call: Call, env: Mapping[int, ProgramArray]) -> tuple[ProgramArray, ...]:
        """Run a node; its outputs are new values."""
        args = tuple(e.value if isinstance(e, Scalar) else env[e] for e in call.args)
        outs = self._node(call, args)
        known: set[ProgramArray] = {
            argument for argument in args if argument.__class__ is ProgramArray
        }
        results = []
        for out in outs:
            results.append(
                self.view(_itself, out, "{0}", elementwise=True) if out in known else out
            )
            known.add(out)
        return tuple(results)

    def _node(self, call: Call, args: tuple[Any, ...]) -> tuple[ProgramArray, ...]:
        if call.node.op == "fused":
            return self._members(call.node.attrs["body"], args)
        scan = call.node.op == "scan" and call.attrs["length"] >= _SHORT
        if scan and all(argument.__class__ is ProgramArray for argument in args):
            results = self._scan(args, call.attrs)
            if results is not None:
                return results
        if all(
            argument.__class__ is not ProgramArray or argument.strides is not None
            for argument in args
        ):
            how = expansion(call.op, args, call.attrs)
            if how is not None:
                result = how(self, *args, **call.attrs)
                return result if isinstance(result, tuple) else (result,)
        elif isinstance(call.op.impl, np.ufunc) and call.op.impl.nout == 1:
            return (self.into(call.op.impl, *args),)
        return self.call(
            call.op.impl, args, call.attrs, maybe=call.op.family == "control",
            text=call.op.name, elementwise=call.op.elementwise,
        )  # fmt: skip

    def _members(self, body: Graph, args: tuple[ProgramArray, ...]) -> tuple[ProgramArray, ...]:
        env: dict[int, ProgramArray] = dict(zip(body.inputs, args, strict=True))
        for value, array in constants_of(body).items():
            env[value] = self.constant(array)
        last = {value: node.id for node in body.nodes for value in (*node.inputs, *node.outputs)}
        kept = {*body.inputs, *body.outputs}
        for node in body.nodes:
            if node.op not in GIVEN:
                env.update(zip(node.outputs, self.node(call_of(node), env), strict=True))
                for value in (*node.inputs, *node.outputs):
                    if last[value] == node.id and value not in kept:
                        self.free(env[value])
        return tuple(env[value] for value in body.outputs)

    # Loops

    def _scan(
        self, args: tuple[Any, ...], attrs: Mapping[str, Any]
    ) -> tuple[ProgramArray, ...] | None:
        """A scan, observed in its second iteration. None if the layouts of its carries do not
        settle.
        """
        body: Graph = attrs["body"]
        carries, columns, length = attrs["carries"], attrs["columns"], attrs["length"]
        run = plan_of(body).run
        start, along = args[:carries], args[carries : carries + columns]
        around = args[carries + columns :]
        loop = Loop(length, attrs["reverse"], start, along, around=around)
        order = range(length - 1, -1, -1) if loop.backwards else range(length)
        outside = [value.array for value in around]

        def rows(i: int) -> list[Any]:
            return [value.array[i] for value in along]

        first = run((*(value.array for value in start), *rows(order[0]), *outside))
        outer_steps, outer_fresh = self._steps, self._fresh
        self._steps, self._fresh = loop.steps, []
        self._loops.append(loop)
        loop.carries = tuple(self.value(array, ()) for array in first[:carries])
        loop.rows = tuple(self.value(row, ()) for row in rows(order[1]))
        for fed in (*loop.carries, *loop.rows):
            fed.roots = (fed,)
        env = dict(zip(body.inputs, (*loop.carries, *loop.rows, *around), strict=True))
        for value, array in constants_of(body).items():
            env[value] = self.constant(array)
        plan = plan_of(body)
        for call in plan.calls:
            env.update(zip(call.node.outputs, self.node(call, env), strict=True))
        ends = [env[value] for value in plan.outputs]
        self._loops.pop()
        loop.ends, loop.results = tuple(ends[:carries]), tuple(ends[carries:])
        second = [value.array for value in ends]
        for fresh in self._fresh:
            if fresh not in self.program.constants:
                fresh.array = None
        self._steps, self._fresh = outer_steps, outer_fresh
        if [end.strides for end in loop.ends] != [carry.strides for carry in loop.carries]:
            return None
        if any(not s.plain for s in loop.ends):
            return None
        if [value.strides for value in start] != [carry.strides for carry in loop.carries]:
            loop.peeled = run
        specs = {value.id: value.spec for value in body.values}
        stacks = [
            np.empty((length, *specs[v].shape), e.dtype)
            for v, e in zip(body.outputs[carries:], loop.results, strict=True)
        ]
        if not self._loops and not loop.unsure and length * len(plan.calls) >= _LONG:
            loop.finals = tuple(map(self.value, as_arrays(tuple(second[:carries]))))
            loop.stacks = tuple(self.value(stack) for stack in stacks)
            self._run_loop(loop)
            self._steps.append(loop)
            return loop.outs
        now: Sequence[Any] = first
        for at, i in enumerate(order):
            if at == 1:
                now = second
            elif at:
                now = run((*now[:carries], *rows(i), *outside))
            for stack, row in zip(stacks, now[carries:], strict=True):
                stack[i] = row
        loop.finals = tuple(map(self.value, as_arrays(tuple(now[:carries]))))
        loop.stacks = tuple(self.value(stack) for stack in stacks)
        self._steps.append(loop)
        return (*loop.finals, *loop.stacks)

    def _run_loop(self, loop: Loop) -> None:
        """Run a loop in its final form."""
        program, known = ObservedProgram(), self.program.constants
        reads = dict.fromkeys(loop.reads)
        program.constants = {read: known[read] for read in reads if read in known}
        program.feeds = [read for read in reads if read not in known]
        program.groups = [Group(0, "a loop", [loop], loop.outs)]
        program.outputs = [*loop.outs]
        _drop_unused(program)
        results = self._once(program, [feed.array for feed in program.feeds])
        for value, array in zip(loop.outs, results, strict=True):
            value.array = array


def _drop_unused(program: ObservedProgram) -> None:
    """Remove unused steps: sources of sums of boxes, and views."""
    used = set(program.outputs)

    def kept(steps: list[Step | Loop]) -> list[Step | Loop]:
        kept_steps = []
        for step in reversed(steps):
            if isinstance(step, Loop):
                used.update((*step.ends, *step.results))
                step.steps = kept(step.steps)
            elif step.kind in (PUT, VIEW) and used.isdisjoint(step.outs):
                continue
            used.update(step.reads)
            kept_steps.append(step)
        return kept_steps[::-1]

    for group in reversed(program.groups):
        group.steps = kept(group.steps)


def _itself(x: Any) -> Any:
    return x


def _given(arg: Any) -> Any:
    return arg.array if arg.__class__ is ProgramArray else arg


def title(node: Node) -> str:
    """The description of a node in the generated text."""
    covers = [member.id for member in node.attrs["body"].nodes] if node.op == "fused" else []
    kind = f"{node.op} {node.attrs['pattern']}" if node.op == "fused" else node.op
    inside = f", members {', '.join(f'@{cover}' for cover in covers)}" if covers else ""
    origin = (
        f", of {', '.join(f'@{traced_id}' for traced_id in node.origin)}" if node.origin else ""
    )
    return f"@{node.id} {kind} {node.name!r}{inside}{origin}"
