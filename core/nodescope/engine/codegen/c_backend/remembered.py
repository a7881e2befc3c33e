"""Remembered plans: generated plans, cached on disk beside the libraries.

Generating takes milliseconds, more than finding and loading a library. A plan's key is a digest of
all its inputs: nodes with their names and attributes, specs, the order, the C templates of ops,
nodescope's own files, NumPy, Python and the compiler. Elements of constants are not part of a plan.

Invariant: a cached plan equals the one that would be generated; a graph without an exact key is
generated again.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine.codegen.c_backend import toolchain
from nodescope.engine.codegen.c_backend.generate import Function, KernelPlan, Spot, Step, plan_of
from nodescope.errors import CompilerError, GraphError
from nodescope.ir.attrs import write
from nodescope.ir.graph import GIVEN, Graph, TensorSpec
from nodescope.ops.calls import call_of
from nodescope.passes.memory import MemoryPlan
from nodescope.passes.pipeline import Lowered
from nodescope.plain_files import read_plain

_MOST_BYTES = 256 << 20
_DIGEST = hashlib.sha256().digest_size


def plan_for(lowered: Lowered) -> KernelPlan:
    """The plan of a lowered graph, cached or generated."""
    try:
        path = toolchain.folder() / f"{key_of(lowered)}.plan"
    except (GraphError, CompilerError):
        return plan_of(lowered)
    stored_plan = _read(path)
    if stored_plan is not None:
        try:
            return _restored(lowered, stored_plan)
        except (ValueError, TypeError, LookupError):
            pass  # an invalid file
    plan = plan_of(lowered)
    toolchain.note(path, sealed(_serialised(plan)))
    return plan


def sealed(record: tuple[Any, ...]) -> bytes:
    """Numbers and texts as bytes, preceded by their checksum."""
    content = marshal.dumps(record)
    return hashlib.sha256(content).digest() + content


def key_of(lowered: Lowered) -> str:
    """A digest of everything that a plan depends on. Raises `GraphError`, `CompilerError`."""
    words: list[Any] = [_ourselves(), toolchain.compiler().key, tuple(lowered.arrays)]
    names: set[str] = set()
    _add(lowered.graph, words, names)
    words += [(name, ops.get(name).c) for name in sorted(names)]
    return hashlib.sha256(repr(words).encode()).hexdigest()[:40]


def _add(graph: Graph, words: list[Any], names: set[str]) -> None:
    words += [graph.inputs, graph.outputs]
    words += [(value.id, value.spec.shape, value.spec.dtype) for value in graph.values]
    for node in graph.nodes:
        names.add(node.op)
        words.append((node.id, node.name, node.op, node.family, node.inputs, node.outputs))
        for name, value in node.attrs.items():
            words.append(name)
            words.append(write(value, lambda body: _body(body, names)))


def _body(graph: Graph, names: set[str]) -> str:
    words: list[Any] = []
    _add(graph, words, names)
    return repr(words)


@cache
def _ourselves() -> str:
    """The generator's identity: its files by time and size, NumPy, Python."""
    package = Path(ops.__file__).parent
    folders = (Path(__file__).parent, package, package.parent / "passes", package.parent / "ir")
    files = []
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    info = entry.stat()
                    files.append((folder.name, entry.name, info.st_mtime_ns, info.st_size))
    record = (sorted(files), np.__version__, sys.version, sys.platform)
    return hashlib.sha256(repr(record).encode()).hexdigest()


def _read(path: Path) -> Any:
    """The content of an intact file, else None."""
    try:
        content = read_plain(path, _MOST_BYTES)
        if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
            return None
        os.utime(path)
        return marshal.loads(content[_DIGEST:])
    except (OSError, ValueError, EOFError, TypeError):
        return None


# A plan as numbers and texts


def _serialised(plan: KernelPlan) -> tuple[Any, ...]:
    numbers: dict[Spot, int] = {}
    functions: dict[Function, int] = {}

    def number(spots: tuple[Spot, ...]) -> tuple[int, ...]:
        return tuple(numbers.setdefault(spot, len(numbers)) for spot in spots)

    steps = [
        (
            step.node is not None,
            -1 if step.function is None else functions.setdefault(step.function, len(functions)),
            number(step.inputs), number(step.outputs), step.reason,
        )
        for step in plan.steps
    ]  # fmt: skip
    outputs = number(tuple(plan.outputs))
    memory = plan.memory
    return (
        [(s.root, s.spec.shape, s.spec.dtype, s.strides, s.offset, s.loose) for s in numbers],
        [(f.name, f.scratch, f.fails, f.count) for f in functions],
        steps, outputs, plan.segments, plan.slots, plan.results,
        (dict(memory.offsets), memory.arena_bytes, memory.in_place, memory.unplanned_peak,
         memory.total_bytes),
        plan.texts, plan.linked, plan.parts,
    )  # fmt: skip


def _restored(lowered: Lowered, record: tuple[Any, ...]) -> KernelPlan:
    spots, functions, steps, outputs, segments, slots, results, memory, *rest = record
    places = [
        Spot(root, TensorSpec(shape, dtype), strides, offset, loose)
        for root, shape, dtype, strides, offset, loose in spots
    ]
    functions_made = [*(Function(*function) for function in functions), None]
    nodes = iter([n for n in lowered.graph.nodes if n.op not in GIVEN])
    plan = KernelPlan(lowered, segments=segments, slots=slots, results=results)
    for of_node, function, inputs, outs, reason in steps:
        node = next(nodes) if of_node else None
        plan.steps.append(
            Step(
                node, None if node is None else call_of(node), functions_made[function],
                tuple([places[i] for i in inputs]), tuple([places[i] for i in outs]), reason,
            )
        )  # fmt: skip
    plan.outputs = [places[i] for i in outputs]
    plan.constants = dict(lowered.arrays)
    plan.memory = MemoryPlan(*memory)
    plan.texts, plan.linked, plan.parts = rest
    return plan
