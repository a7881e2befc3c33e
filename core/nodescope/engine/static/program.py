"""Program: a graph with its arrays, independent of the function that it was traced from.

Its file is an archive of the kind "program", see `nodescope.engine.graphs.archive`.

Invariant: a loaded program computes what the saved one would; nothing in a file is executed; its
state shares no memory with arguments, results, or the surrounding program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from nodescope.engine import dispatch_mode
from nodescope.engine.crosscheck.active import cross_check
from nodescope.engine.graphs import archive, saved
from nodescope.engine.graphs.graph import Graph as BuiltGraph
from nodescope.engine.source import where
from nodescope.engine.static.entry import FROM_LEAF, FROM_OUTSIDE, FROM_RATE, Entry
from nodescope.engine.static.lowering import Lowering, Wish, closed
from nodescope.engine.static.optimizer_schedule import (
    Host,
    OptimizerSchedule,
    Settings,
    read_schedule,
    schedule_of,
)
from nodescope.engine.tensor import Tensor, make
from nodescope.engine.trees import flatten
from nodescope.errors import DtypeError, GraphError, ShapeError, UsageError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import Graph
from nodescope.ir.text import print_graph
from nodescope.ops.op import Array
from nodescope.ops.plan import Plan

_CONTAINERS: dict[str, Any] = {"list": list, "tuple": tuple, "dict": dict}
_LEAVES = ({"value"}, {"argument"}, {"static"}, {"none"})
_KEYS = bool | int | float | str | None


class _About(msgspec.Struct, forbid_unknown_fields=True):
    """Data in a program's archive besides nodes and arrays."""

    name: str
    arguments: list[tuple[str, int]]
    results: dict[str, Any]
    writes: dict[int, int]
    numbers: dict[int, float | str]
    optimizers: list[Settings]
    hosts: list[Host]


class Program:
    """A static graph that can be run, printed, saved and loaded, independently of its function.

    ``f.graph(*args)`` of a compiled function creates one; `Program.load` and
    `nodescope.load_graph` read one. Call it with arguments of the same structure as those the
    function was traced with: ``program(x)``, or ``program.run(x)``.

    A program has its own state: copies of the parameters, buffers and optimizer state as of its
    creation. Where the graph assigns to them (in a training step), a call updates these copies, and
    the next call continues from there; the function's own parameters do not change. `save` writes
    their current values.

    Attributes:
        graph: The graph; see `nodescope.ir.graph.Graph`.
        name: The name of the traced function.
        constants: Arrays that are part of the graph, by value id.
        state: Inputs other than the arguments (parameters, optimizer state and numbers), by value
            id. A call replaces the values that the graph assigns to, and sets an optimizer's
            numbers to those of its next step.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        constants: dict[int, Array],
        state: dict[int, Any],
        arguments: Sequence[tuple[str, int]],
        results: Any,
        writes: dict[int, int],
        schedule: OptimizerSchedule,
    ) -> None:
        self.graph, self.name = graph, name
        self.constants, self.state = constants, state
        self._arguments = [(path, value) for path, value in arguments]
        self._results = results
        self._writes, self._schedule = writes, schedule
        plan = Plan(graph, constants)
        self._lowering = Lowering(plan, closed(plan, graph.nodes), constants, Wish(), name, 1)
        self._specs = {value.id: value.spec for value in graph.values}

    def __str__(self) -> str:
        return print_graph(self.graph)

    def __repr__(self) -> str:
        return f"<graph of {self.name}: {len(self.graph.nodes)} nodes>"

    @property
    def nodes(self) -> Any:
        """The graph's nodes, in topological order."""
        return self.graph.nodes

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program on arguments of the same structure as those the function was traced with.

        Arrays and tensors replace the traced ones, in order; all other arguments are part of the
        graph. Results carry no gradient history. Assignments change `state`; arguments are never
        written to.

        Raises:
            UsageError: The number of arrays differs from what the graph takes.
            ShapeError, DtypeError: An array differs from what the graph takes.
        """
        leaves, _ = flatten((args, dict(sorted(kwargs.items()))))
        leaves = [leaf for leaf in leaves if isinstance(leaf, Tensor | np.ndarray | np.generic)]
        if len(leaves) != len(self._arguments):
            paths = ", ".join(path for path, _ in self._arguments)
            raise UsageError(
                f"{self.name}: the graph takes {len(self._arguments)} arrays, got {len(leaves)}",
                source=where(),
                hint=f"give {paths}",
            )
        fed = dict(self.state)
        for (path, value), leaf in zip(self._arguments, leaves, strict=True):
            if value:
                fed[value] = self._checked(path, value, leaf)
        feeds = [fed[value] for value in self.graph.inputs]
        arrays = self._lowering.run(feeds)
        check = cross_check()
        if check is not None:
            tracer = dispatch_mode.attending()
            step = 0 if tracer is None else tracer.step
            if self._lowering.ready() is not None:
                check.call(self._lowering, 0, step, feeds)
            elif self._lowering.given_up:
                check.failed(self._lowering, step)
        results_by_value = dict(zip(self.graph.outputs, arrays, strict=True))
        inputs = [leaf.data if isinstance(leaf, Tensor) else np.asarray(leaf) for leaf in leaves]
        held_arrays = [array for array in (*self.state.values(), *self.constants.values())
                if isinstance(array, np.ndarray)]  # fmt: skip
        returned = set(_values_of(self._results))
        results = {
            value: _apart(array, held_arrays)
            for value, array in {**self.state, **results_by_value}.items()
            if value in returned
        }
        shared = [*inputs, *results.values(), *held_arrays]
        for value, becomes in self._writes.items():
            self.state[value] = _apart(results_by_value[becomes], shared)
        self.state.update(self._schedule.advance())
        return _built(self._results, results, leaves)

    run = __call__

    def _checked(self, path: str, value: int, argument: Any) -> Array:
        data: Array = argument.data if isinstance(argument, Tensor) else np.asarray(argument)
        spec = self._specs[value]
        if data.shape != tuple(spec.shape):
            raise ShapeError(
                f"{self.name}: {path} has shape {data.shape}, the graph takes {tuple(spec.shape)}",
                source=where(), hint="trace the function for this shape",
            )  # fmt: skip
        if data.dtype != as_dtype(spec.dtype):
            raise DtypeError(
                f"{self.name}: {path} is {data.dtype}, the graph takes {spec.dtype}",
                source=where(), hint="convert it with .astype",
            )  # fmt: skip
        return data

    def save(self, path: Any) -> None:
        """Write the program to a file, atomically.

        Raises:
            GraphError: The function returns an object that cannot be saved in a file.
        """
        about = {
            "name": self.name,
            "arguments": self._arguments,
            "results": _plain(self.name, self._results),
            "writes": {str(value): becomes for value, becomes in self._writes.items()},
            "numbers": {str(k): v.hex() for k, v in self.state.items() if isinstance(v, float)},
            **self._schedule.plain(),
        }
        arrays = {k: v for k, v in self.state.items() if not isinstance(v, float)}
        archive.write(path, "program", self.graph, {**self.constants, **arrays}, about)

    @staticmethod
    def load(path: Any) -> Program:
        """Read a program from a file.

        Raises:
            GraphError: The file is of another kind, is damaged, or was written by a newer version.
        """
        with archive.reading(path):
            return Program.of(archive.read(path, "program"))

    @staticmethod
    def of(contents: archive.Archive) -> Program:
        """The program in an archive. Raises `GraphError` if its parts do not fit together."""
        about = archive.converted(contents.about, _About)
        graph = archive.verified(contents.graph)
        state: dict[int, Any] = dict(contents.arrays)
        for value in graph.constants:
            if value not in state:
                raise GraphError(f"the constant %{value} has no array")
        constants = {value: state.pop(value) for value in graph.constants}
        for value, number in about.numbers.items():
            state[value] = float.fromhex(number) if isinstance(number, str) else number
        _check(graph, state, about)
        schedule = read_schedule(about.optimizers, about.hosts, about.numbers)
        return Program(graph, about.name, constants, state, about.arguments, about.results,
                       about.writes, schedule)  # fmt: skip


def _check(graph: Graph, state: dict[int, Any], about: _About) -> None:
    """Refuse parts that do not fit together, which would fail or mix up values in a run."""
    fed = [value for _, value in about.arguments if value]
    if len(set(fed)) != len(fed) or not state.keys().isdisjoint(fed):
        raise GraphError("an input is given twice")
    if not set(fed) <= set(graph.inputs):
        raise GraphError("an argument is not an input of the graph")
    missing = set(graph.inputs) - {*fed, *state}
    if missing:
        raise GraphError(f"the input %{min(missing)} has no array")
    odd = {value for value in state if value >= 0} - set(graph.inputs)
    if odd:
        raise GraphError(f"%{min(odd)} has an array, but is not an input")
    specs = {value.id: value.spec for value in graph.values}
    for value, becomes in about.writes.items():
        if value not in state or becomes not in graph.outputs:
            raise GraphError(f"%{value} cannot become %{becomes}")
        if specs.get(value) != specs[becomes]:
            raise GraphError(f"%{value} becomes %{becomes}, which is a different kind of array")
    for value in _values_of(about.results):
        if value not in graph.outputs and not isinstance(state.get(value), np.ndarray):
            raise GraphError(f"the result %{value} is unknown")
    for position in _arguments_of(about.results):
        if not 0 <= position < len(about.arguments):
            raise GraphError(f"the result is argument {position}, which is unknown")


def program_of(entry: Entry) -> Program:
    """A program with an entry's graph and copies of the current values of its state."""
    traced, builder = entry.traced, entry.traced.builder
    state: dict[int, Any] = {}
    arguments: list[tuple[str, int]] = [
        (traced.form.arguments[position].path, 0) for position in traced.form.dynamic
    ]
    entry.next_rates()  # refuses settings that have changed since tracing
    names: list[dict[int, str]] = [{} for _ in entry.owners]
    values_by_place: dict[int, int] = {}
    for value, (kind, place, name) in zip(entry.inputs, entry.feeding, strict=True):
        if kind == FROM_LEAF:
            arguments[place] = (arguments[place][0], value)
        elif kind == FROM_OUTSIDE:
            state[value] = place.data.copy(order="K")
            values_by_place[id(place)] = value
        elif kind == FROM_RATE:
            names[place][value] = name
        elif isinstance(place, Tensor) and place._grad is not None:
            state[value] = place._grad.data.copy(order="K")
    schedule = schedule_of(entry.owners, names)
    state.update(schedule.advance())
    outputs = list(entry.outputs)
    # By position of an argument, or by id of a tensor from outside.
    written = {place if isinstance(place, int) else id(place): value
               for place, value in entry.writes}  # fmt: skip
    leaves: list[Any] = []
    for result_kind, item in entry.results:
        if result_kind == "value":
            leaves.append({"value": outputs[item]})
        elif result_kind == "static":
            leaves.append({"static": item})
        elif (place := item if result_kind == "leaf" else id(item)) in written:
            leaves.append({"value": written[place]})  # its value when the function returns
        elif result_kind == "leaf":
            leaves.append({"argument": item})
        elif id(item) in values_by_place:
            leaves.append({"value": values_by_place[id(item)]})
        else:
            # Returned unchanged, without being a value of the graph.
            beside = -1 - sum(key < 0 for key in state)
            state[beside] = item.data.copy(order="K")
            leaves.append({"value": beside})
    returned = {value: None for leaf in leaves if (value := leaf.get("value", -1)) not in state}
    returned.pop(-1, None)
    writes = {
        values_by_place[id(place)]: value
        for place, value in entry.writes
        if isinstance(place, Tensor) and id(place) in values_by_place
    }
    graph = Graph(
        id=entry.graph.id, kind="static", inputs=entry.graph.inputs,
        outputs=tuple(dict.fromkeys((*returned, *outputs))), nodes=entry.graph.nodes,
        values=entry.graph.values, constants=entry.graph.constants,
    )  # fmt: skip
    constants = {constant: builder.arrays[constant] for constant in graph.constants}
    return Program(
        graph, entry.name, constants, state, arguments,
        described(traced.structure, iter(leaves)), writes, schedule,
    )  # fmt: skip


def described(structure: Any, leaves: Any) -> Any:
    """A result as JSON-like data: the kind of each leaf, within containers."""
    kind = structure.kind
    if kind is None:
        return next(leaves)
    if kind is type(None):
        return {"none": True}
    children = [described(child, leaves) for child in structure.children]
    name = "dict" if issubclass(kind, dict) else "list" if issubclass(kind, list) else "tuple"
    keys = list(structure.keys) if name == "dict" else []
    return {"kind": name, "keys": keys, "children": children}


def _built(tree: Any, values: dict[int, Any], leaves: list[Any]) -> Any:
    if "kind" in tree:
        children = [_built(child, values, leaves) for child in tree["children"]]
        if tree["kind"] == "dict":
            return dict(zip(tree["keys"], children, strict=True))
        return _CONTAINERS[tree["kind"]](children)
    if "value" in tree:
        return make(values[tree["value"]])
    if "argument" in tree:
        return leaves[tree["argument"]]
    return tree.get("static")


def _leaves(tree: Any) -> Iterable[dict[str, Any]]:
    """The leaves of a description. Raises `GraphError` if it is invalid."""
    if not isinstance(tree, dict):
        raise GraphError("a result is not described by an object")
    if "kind" not in tree:
        if set(tree) not in _LEAVES:
            raise GraphError(f"{sorted(tree)} do not describe a result")
        yield tree
        return
    kind, keys, children = tree["kind"], tree.get("keys"), tree.get("children")
    if kind not in _CONTAINERS or not isinstance(keys, list) or not isinstance(children, list):
        raise GraphError(f"a result is an unknown container, {kind!r}")
    if not all(isinstance(key, _KEYS) for key in keys):
        raise GraphError("a key of a result is not a plain value")
    if kind == "dict" and len(keys) != len(children):
        raise GraphError("a result has more or fewer keys than values")
    for child in children:
        yield from _leaves(child)


def _values_of(tree: Any) -> Iterable[int]:
    return _numbers(tree, "value")


def _arguments_of(tree: Any) -> Iterable[int]:
    return _numbers(tree, "argument")


def _numbers(tree: Any, kind: str) -> Iterable[int]:
    for leaf in _leaves(tree):
        if kind in leaf:
            if type(leaf[kind]) is not int:
                raise GraphError(f"{leaf[kind]!r} is no {kind}")
            yield leaf[kind]


def _plain(name: str, tree: Any) -> Any:
    """A description, if JSON can represent it. Raises `GraphError`."""
    for leaf in _leaves(tree):
        if not isinstance(leaf.get("static"), _KEYS):
            raise GraphError(
                f"{name}: a result cannot be saved: it is a {type(leaf['static']).__name__}",
                source=where(), hint="return tensors, numbers and strings",
            )  # fmt: skip
    return tree


def _apart(array: Array, arrays: Iterable[Array]) -> Array:
    """The array, or a copy if it shares memory with one of the others."""
    shared = any(np.may_share_memory(array, other) for other in arrays)
    return array.copy(order="K") if shared else array


def load_graph(path: Any) -> BuiltGraph | Program:
    """Read a saved graph or program.

    Args:
        path: A file written by `Graph.save` or `Program.save`.

    Returns:
        A `Graph`, for a `Session`, whose variables start with the values in the file; or a
        `Program`, which is called like the function that it was traced from.

    Raises:
        GraphError: The file is of another kind, is damaged, or was written by a newer version.
            Reading a file never runs code from it.
    """
    with archive.reading(path):
        contents = archive.read(path)
        if contents.kind == "graph":
            return saved.of(contents, BuiltGraph())
        return Program.of(contents)
