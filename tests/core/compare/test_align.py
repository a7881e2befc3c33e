"""Matching of nodes by name, by order and by their users."""

from __future__ import annotations

import msgspec

from nodescope.compare.align import Called, align
from nodescope.ir.graph import Graph, Node, SourceLocation, TensorSpec, Value

SPEC = TensorSpec((2,), "float64")


def chain(*ops: str, scope: str = "", first: int = 1, leaf: str = "placeholder") -> list[Node]:
    """A chain: a leaf, then each op on the previous result."""
    results: list[Node] = []
    counts: dict[str, int] = {}
    for number, op in enumerate((leaf, *ops), first):
        nth = counts[op] = counts.get(op, -1) + 1
        label = f"{op}_{nth}" if nth else op
        results.append(
            Node(
                number, f"{scope}/{label}" if scope else label, op,
                "leaf" if op == leaf else "elementwise",
                (number - 1,) if number > first else (), outputs=(number,), scope=scope,
                role="input" if op == leaf else "op",
            )
        )  # fmt: skip
    return results


def graph(nodes: list[Node]) -> Graph:
    values = tuple(Value(node.outputs[0], SPEC, node.name) for node in nodes)
    return Graph(1, "static", nodes=tuple(nodes), values=values)


def matched(traced: list[Node], eager: list[Node]) -> dict[int, tuple[int, str]]:
    result = align(graph(traced), eager, {node.outputs[0]: SPEC for node in eager})
    return {match.traced: (match.eager, match.reason) for match in result.matches.values()}


def test_nodes_match_by_scope_op_phase_and_number() -> None:
    traced, eager = chain("exp", "log", "exp"), chain("exp", "log", "exp", first=11)
    assert matched(traced, eager) == {
        2: (12, "name"), 3: (13, "name"), 4: (14, "name"), 1: (11, "inputs"),
    }  # fmt: skip


def test_inside_the_scope_of_the_call() -> None:
    traced, eager = chain("exp", "log", scope="net"), chain("exp", "log", scope="a/net", first=11)
    result = align(graph(traced), eager)
    assert result.base == "a"
    assert {match.traced: match.eager for match in result.matches.values()} == {1: 11, 2: 12, 3: 13}


def test_backward_nodes_match_inside_backward() -> None:
    forward = Node(1, "net/exp", "exp", "elementwise", outputs=(1,), scope="net")
    back = Node(2, "backward/net/multiply", "multiply", "elementwise", (1,), outputs=(2,),
                scope="backward/net", phase="backward")  # fmt: skip
    reverse_node = Node(11, "a/net/exp", "exp", "elementwise", outputs=(11,), scope="a/net")
    behind = Node(12, "backward/a/net/multiply", "multiply", "elementwise", (11,), outputs=(12,),
                  scope="backward/a/net", phase="backward")  # fmt: skip
    assert matched([forward, back], [reverse_node, behind]) == {1: (11, "name"), 2: (12, "name")}


def test_the_first_of_several_calls() -> None:
    traced = chain("exp", "log")
    eager = chain("exp", "log", "exp", "log", first=11)
    result = matched(traced, eager)
    assert result[2] == (12, "name")
    assert result[3] == (13, "name")


def test_nodes_match_by_order_if_names_do_not() -> None:
    traced = chain("exp", "log", "sin", scope="f")
    eager = [*chain("exp", first=11), *chain("log", "cos", "sin", first=21, scope="other")]
    result = matched(traced, eager)
    assert result[2] == (12, "order")
    assert result[3] == (22, "order")
    assert result[4] == (24, "order")


def test_nothing_is_matched_twice() -> None:
    traced, eager = chain("exp", "exp", "exp"), chain("exp", "exp", first=11)
    result = matched(traced, eager)
    positions = [number for number, _ in result.values()]
    assert len(set(positions)) == len(positions)
    assert len([item for item in result.values() if item[1] == "order"]) == 2


def test_an_op_is_never_matched_with_another() -> None:
    assert matched(chain("exp"), chain("log", first=11)) == {1: (11, "name")}


def at(nodes: list[Node], line: int) -> list[Node]:
    """The same nodes, from a line of a program."""
    source = SourceLocation("program.py", line)
    return [msgspec.structs.replace(node, source=source) for node in nodes]


def test_another_function_with_the_same_ops_is_not_a_match() -> None:
    traced = at(chain("exp", "log"), 8)
    eager = [*at(chain("exp", "log", first=11), 5), *at(chain("exp", "log", first=21), 8)]
    result = matched(traced, eager)
    assert (result[2], result[3]) == ((22, "name"), (23, "name"))


def test_the_call_with_the_shapes_of_the_trace() -> None:
    traced = at(chain("exp"), 8)
    eager = at([*chain("exp", first=11), *chain("exp", first=21)], 8)
    result = align(graph(traced), eager, {12: TensorSpec((5,), "float64"), 22: SPEC})
    assert result.matches[2].eager == 22
    # Shapes come from the first execution: if none fits, the line decides.
    result = align(graph(traced), eager, {12: TensorSpec((5,), "float64"), 22: TensorSpec((), "")})
    assert result.matches[2].eager == 12


def test_nodes_match_after_those_of_earlier_calls() -> None:
    traced, other = at(chain("exp", "log", "exp"), 8), at(chain("exp"), 8)
    calls = [chain("exp", first=11), chain("exp", "log", "exp", first=21), chain("exp", first=31)]
    eager = at([node for call in calls for node in call], 8)
    specs = {node.outputs[0]: SPEC for node in eager}
    result = align(graph(traced), eager, specs, base="", before=[Called(graph(other), "")])
    assert [result.matches[item].eager for item in (2, 3, 4)] == [22, 23, 24]


def test_the_scope_of_the_call_may_be_known() -> None:
    traced = chain("exp")
    eager = [*chain("exp", scope="a", first=11), *chain("exp", scope="b", first=21)]
    assert align(graph(traced), eager).matches[2].eager == 12
    assert align(graph(traced), eager, base="b").matches[2].eager == 22


def test_a_leaf_of_another_shape_is_not_matched_by_its_name() -> None:
    result = align(graph(chain()), chain(first=11), {11: TensorSpec((9,), "float64")})
    assert not result.matches
