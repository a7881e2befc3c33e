"""Events of compilation: captured graphs, the passes that changed them, and what runs in the end.

Invariant: frozen; graphs are referred to by id, and each is captured before anything refers to it.
"""

from __future__ import annotations

import msgspec

from nodescope.ir.graph import Graph
from nodescope.ir.provenance import Fate, KernelCost, MemoryReport, Rewrite


class GraphCaptured(msgspec.Struct, frozen=True, tag=True):
    """A whole graph was captured at once. Its nodes do not run; the nodes that do run refer to it.

    Attributes:
        graph: Node and value ids are local, shared only with the other graphs of its owner;
            ``graph.id`` is unique among the captured graphs of the run.
        owner: The compiled function and the number of its trace, as ``train_step#1``.
        stage: ``traced``, then the name of each pass that changed it, and ``final`` for the graph
            that runs (kind ``compiled``, with `Node.origin`).
    """

    graph: Graph
    owner: str = ""
    stage: str = ""


class PassApplied(msgspec.Struct, frozen=True, tag=True):
    """A compiler pass turned one graph into another.

    Attributes:
        name: The pass.
        before, after: Ids of captured graphs; equal if nothing changed.
        rewrites: The changes, in order.
        owner: As in `GraphCaptured`.
        took_ns: Duration in nanoseconds.
        notes: Further remarks, such as why two nodes were not merged.
    """

    name: str
    before: int
    after: int
    rewrites: tuple[Rewrite, ...] = ()
    owner: str = ""
    took_ns: int = 0
    notes: tuple[str, ...] = ()


class Compiled(msgspec.Struct, frozen=True, tag=True):
    """The result of compiling a traced function; emitted after its captured graphs.

    Attributes:
        owner: As in `GraphCaptured`.
        backend: Name of the back end; ``""`` if the graph runs as traced.
        fallback: Why it is not the requested back end, or ``""``.
        fates: One per traced node.
        origins: By id of a final node: ids of the traced nodes that it replaces.
        values: By id of a traced value: id of the final value that replaces it.
        inside: By id of a traced value that only a kernel computes: the kernel's node id and the
            value's id in its body.
        unfused: Why nodes were not fused into one kernel.
        costs: Estimated costs by id of a final node.
        memory: Memory of the back end's plan; None without a plan.
        compile_ns: Time for lowering and building.
    """

    owner: str
    backend: str
    fallback: str = ""
    fates: tuple[Fate, ...] = ()
    origins: dict[int, tuple[int, ...]] = {}
    values: dict[int, int] = {}
    inside: dict[int, tuple[int, int]] = {}
    unfused: tuple[str, ...] = ()
    costs: dict[int, KernelCost] = {}
    memory: MemoryReport | None = None
    compile_ns: int = 0
