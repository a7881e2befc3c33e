"""Program: a graph with the arrays that it needs, apart from the function that it was traced from.

A file is a zip archive: ``graph.txt`` (`nodescope.ir.text`), ``program.json``, and an entry of raw
little-endian bytes for each array; shapes and dtypes stand in the graph.

Invariant: a program that was loaded gives what the saved one would give; nothing in a file is run.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nodescope.engine.plan import Plan
from nodescope.engine.source import where
from nodescope.engine.static.entry import FROM_LEAF, FROM_OUTSIDE, FROM_RATE, Entry
from nodescope.engine.tensor import Tensor, make
from nodescope.engine.trees import flatten
from nodescope.errors import DtypeError, GraphError, ShapeError, UsageError
from nodescope.ir.graph import Graph, TensorSpec
from nodescope.ir.text import parse_graph, print_graph
from nodescope.ops.lowprecision import as_dtype
from nodescope.ops.op import Array

FORMAT = 1
_CONTAINERS: dict[str, type] = {"list": list, "tuple": tuple, "dict": dict}


class Program:
    """A static graph that can be run, printed, saved and loaded.

    Attributes:
        graph: Its nodes; see `nodescope.ir.graph.Graph`.
        name: Of the function that it was traced from.
        constants: Arrays that are part of the graph, by value id.
        state: What it takes besides its arguments (parameters, an optimizer's state and numbers),
            by value id. `run` replaces what the graph assigns to.
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
    ) -> None:
        self.graph, self.name = graph, name
        self.constants, self.state = constants, state
        self._arguments = [(path, value) for path, value in arguments]
        self._results = results
        self._writes = writes
        self._plan = Plan(graph, constants)
        self._specs = {each.id: each.spec for each in graph.values}

    def __str__(self) -> str:
        return print_graph(self.graph)

    def __repr__(self) -> str:
        return f"<graph of {self.name}: {len(self.graph.nodes)} nodes>"

    @property
    def nodes(self) -> Any:
        """The graph's nodes, in topological order."""
        return self.graph.nodes

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The result, from arguments of the form that the function was traced with.

        Raises:
            UsageError: There are more or fewer arrays than the graph takes.
            ShapeError, DtypeError: One is another than the graph takes.
        """
        leaves, _ = flatten((args, dict(sorted(kwargs.items()))))
        leaves = [each for each in leaves if isinstance(each, Tensor | np.ndarray | np.generic)]
        if len(leaves) != len(self._arguments):
            wanted = ", ".join(path for path, _ in self._arguments)
            raise UsageError(
                f"{self.name}: the graph takes {len(self._arguments)} arrays, not {len(leaves)}",
                source=where(),
                hint=f"give {wanted}",
            )
        fed = dict(self.state)
        for (path, value), each in zip(self._arguments, leaves, strict=True):
            if value:
                fed[value] = self._checked(path, value, each)
        arrays = self._plan.run([fed[each] for each in self.graph.inputs])
        found = dict(zip(self.graph.outputs, arrays, strict=True))
        result = _built(self._results, {**self.state, **found}, leaves)
        for value, becomes in self._writes.items():
            self.state[value] = found[becomes]
        return result

    def _checked(self, path: str, value: int, given: Any) -> Array:
        data: Array = given.data if isinstance(given, Tensor) else np.asarray(given)
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
        """Write the program to a file, whole or not at all.

        Raises:
            GraphError: The function returns an object that a file cannot hold.
        """
        target = Path(path)
        about = {
            "format": FORMAT,
            "name": self.name,
            "arguments": self._arguments,
            "results": self._results,
            "writes": sorted(self._writes.items()),
            "beside": {
                key: (each.shape, each.dtype.name) for key, each in self.state.items() if key < 0
            },
            "numbers": {k: v for k, v in self.state.items() if isinstance(v, float)},
        }
        try:
            text = json.dumps(about, allow_nan=True)
        except TypeError as error:
            raise GraphError(f"{self.name}: a result cannot be saved: {error}",
                             source=where()) from None  # fmt: skip
        arrays = {**self.constants, **self.state}
        temporary = target.with_name(f"{target.name}.{os.getpid()}.part")
        try:
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("program.json", text)
                archive.writestr("graph.txt", print_graph(self.graph))
                for value, each in arrays.items():
                    if not isinstance(each, float):
                        archive.writestr(f"arrays/{value}", _little(each).tobytes())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    @staticmethod
    def load(path: Any) -> Program:
        """Read a program from a file.

        Raises:
            GraphError: It is no such file, is damaged, or was written by a newer version.
        """
        try:
            with zipfile.ZipFile(path) as archive:
                about = json.loads(archive.read("program.json"))
                if about["format"] > FORMAT:
                    raise GraphError(
                        f"{path} was written by a newer nodescope (format {about['format']})",
                        hint="upgrade nodescope",
                    )
                graph = parse_graph(archive.read("graph.txt").decode())
                specs = {each.id: each.spec for each in graph.values}
                for key, (shape, dtype) in about["beside"].items():
                    specs[int(key)] = TensorSpec(tuple(shape), dtype)
                arrays: dict[int, Any] = {
                    int(name.partition("/")[2]): _array(
                        archive.read(name), specs[int(name.partition("/")[2])]
                    )
                    for name in archive.namelist()
                    if name.startswith("arrays/")
                }
        except (zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
            raise GraphError(f"{path} is not a saved program, or is damaged: {error}") from None
        constants = {value: arrays.pop(value) for value in graph.constants}
        arrays.update({int(key): each for key, each in about["numbers"].items()})
        return Program(
            graph, about["name"], constants, arrays,
            [(each, value) for each, value in about["arguments"]], about["results"],
            dict(about["writes"]),
        )  # fmt: skip


def program_of(entry: Entry) -> Program:
    """The graph of an entry apart from its function, with what it holds now."""
    traced, builder = entry.traced, entry.traced.builder
    state: dict[int, Any] = {}
    arguments: list[tuple[str, int]] = [
        (traced.form.arguments[position].path, 0) for position in traced.form.dynamic
    ]
    rates = entry.next_rates()
    held: dict[int, int] = {}
    for value, (kind, place, name) in zip(entry.inputs, entry.feeding, strict=True):
        if kind == FROM_LEAF:
            arguments[place] = (arguments[place][0], value)
        elif kind == FROM_OUTSIDE:
            state[value] = place.data
            held[id(place)] = value
        elif kind == FROM_RATE:
            state[value] = float(rates[place][name])
        elif isinstance(place, Tensor) and place._grad is not None:
            state[value] = place._grad.data
    outputs = list(entry.outputs)
    leaves: list[Any] = []
    for what, each in entry.results:
        if what == "value":
            leaves.append({"value": outputs[each]})
        elif what == "leaf":
            leaves.append({"argument": each})
        elif what == "static":
            leaves.append({"static": each})
        else:
            # Returned as it is, without being a value of the graph.
            beside = -1 - sum(held < 0 for held in state)
            state[beside] = each.data
            leaves.append({"value": beside})
    asked = {each["value"]: None for each in leaves if each.get("value", 0) > 0}
    writes = {
        held[id(place)]: value
        for place, value in entry.writes
        if isinstance(place, Tensor) and id(place) in held
    }
    graph = Graph(
        id=entry.graph.id, kind="static", inputs=entry.graph.inputs,
        outputs=tuple(dict.fromkeys((*asked, *outputs))), nodes=entry.graph.nodes,
        values=entry.graph.values, constants=entry.graph.constants,
    )  # fmt: skip
    constants = {each: builder.arrays[each] for each in graph.constants}
    return Program(
        graph, entry.name, constants, state, arguments,
        described(traced.structure, iter(leaves)), writes,
    )  # fmt: skip


def described(structure: Any, leaves: Any) -> Any:
    """A result as JSON-like data: what each leaf is, within containers."""
    kind = structure.kind
    if kind is None:
        return next(leaves)
    if kind is type(None):
        return {"none": True}
    children = [described(each, leaves) for each in structure.children]
    name = "dict" if issubclass(kind, dict) else "list" if issubclass(kind, list) else "tuple"
    keys = list(structure.keys) if name == "dict" else []
    return {"kind": name, "keys": keys, "children": children}


def _built(what: Any, values: dict[int, Any], leaves: list[Any]) -> Any:
    if "kind" in what:
        children = [_built(each, values, leaves) for each in what["children"]]
        if what["kind"] == "dict":
            return dict(zip(what["keys"], children, strict=True))
        return _CONTAINERS[what["kind"]](children)
    if "value" in what:
        return make(values[what["value"]])
    if "argument" in what:
        return leaves[what["argument"]]
    return what.get("static")


def _little(array: Array) -> Array:
    return np.ascontiguousarray(array)


def _array(raw: bytes, spec: TensorSpec) -> Array:
    return np.frombuffer(raw, as_dtype(spec.dtype)).reshape(spec.shape).copy()
