"""Kernels: several nodes of a draft become one node ``fused``.

Invariant: the body's nodes are the unchanged members in the draft's order; every value used outside
is an output, with its former id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from nodescope.ir.graph import Graph, Node, Value
from nodescope.passes.cost import nbytes
from nodescope.passes.draft import Draft

_replace = msgspec.structs.replace

MOST_MEMBERS, MOST_INPUTS, MOST_OUTPUTS = 64, 24, 16


def taken(members: Sequence[Node]) -> list[int]:
    """The input values of a kernel, in order of first use."""
    produced = {value for node in members for value in node.outputs}
    return list(dict.fromkeys(v for node in members for v in node.inputs if v not in produced))


def given_out(draft: Draft, members: Sequence[Node]) -> list[int]:
    """The output values of a kernel, in order of creation."""
    ids, results = {node.id for node in members}, set(draft.outputs)
    return [
        value
        for node in members
        for value in node.outputs
        if value in results or any(user.id not in ids for user in draft.users(value))
    ]


def too_large(nodes: int, inputs: int, outputs: int) -> str:
    """Why these numbers are too large for one kernel, or ``""``."""
    for count, most, unit in (
        (nodes, MOST_MEMBERS, "nodes"),
        (inputs, MOST_INPUTS, "inputs"),
        (outputs, MOST_OUTPUTS, "outputs"),
    ):
        if count > most:
            return f"the kernel would have {count} {unit}, at most {most} are allowed"
    return ""


def make_kernel(
    draft: Draft, members: Sequence[Node], pattern: str, over: str = "", phase: str = ""
) -> Node:
    """Merge nodes into a kernel, and record it.

    Args:
        members: In topological order; no path may lead out of them and back in.
        pattern: The name of their common pattern.
        over: A description of its loop, for the rewrite's note.
        phase: The kernel's; that of its last node if empty.
    """
    members = [draft.node(node.id) for node in members]  # control inputs may be in kernels by now
    ids = {node.id for node in members}
    inputs, outputs = taken(members), given_out(draft, members)
    last = members[-1]
    control = tuple(
        dict.fromkeys(c for node in members for c in node.control_inputs if c not in ids)
    )
    node = draft.add(
        "fused", inputs, {"body": _body(draft, members, inputs, outputs), "pattern": pattern},
        like=last, label=pattern, outputs=outputs, control=control,
        phase=phase or None,  # type: ignore[arg-type]
    )  # fmt: skip
    alone = sum(nbytes(draft.spec(v)) for member in members
                for v in (*dict.fromkeys(member.inputs), *member.outputs))  # fmt: skip
    moved = sum(nbytes(draft.spec(v)) for v in (*inputs, *outputs))
    draft.rewrite(
        pattern, "fused", members, [node],
        note=f"{len(members)} nodes{over} move {moved:,} bytes as one, {alone:,} one by one",
    )  # fmt: skip
    return node


def _body(
    draft: Draft, members: Sequence[Node], inputs: Sequence[int], outputs: Sequence[int]
) -> Graph:
    ids = {node.id for node in members}
    values = sorted({*inputs, *(value for node in members for value in node.outputs)})
    return Graph(
        id=0,
        kind="compiled",
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        nodes=tuple(_inside(node, ids) for node in members),
        values=tuple(draft.value(value) for value in values),
    )


def _inside(node: Node, ids: Collection[int]) -> Node:
    """A node without the control inputs that lead outside: the kernel waits for those."""
    if not node.control_inputs:
        return node
    return _replace(node, control_inputs=tuple(c for c in node.control_inputs if c in ids))


def renumbered(draft: Draft, body: Graph, results: Iterable[int]) -> tuple[Graph, dict[int, int]]:
    """A copy of a body that computes only some of its outputs, with new ids for nodes and values.

    Returns:
        The copy, whose inputs keep their ids, and the new id of each value that it produces.
    """
    needed, nodes = set(results), []
    for node in reversed(body.nodes):
        if not needed.isdisjoint(node.outputs):
            nodes.append(node)
            needed.update(node.inputs)
    new: dict[int, int] = {}
    copied = []
    for node in reversed(nodes):
        new.update((value, draft.fresh()) for value in node.outputs)
        inputs = tuple(new.get(v, v) for v in node.inputs)
        outputs = tuple(new[v] for v in node.outputs)
        copied.append(
            _replace(node, id=draft.fresh(), inputs=inputs, outputs=outputs, control_inputs=())
        )
    taking = tuple(taken(copied))
    known = {value.id: value for value in body.values}
    values = [known[value] for value in taking]
    values += [Value(after, known[old].spec, known[old].name) for old, after in new.items()]
    return Graph(
        id=0, kind="compiled", inputs=taking, outputs=tuple(new[value] for value in results),
        nodes=tuple(copied), values=tuple(sorted(values, key=lambda value: value.id)),
    ), new  # fmt: skip
