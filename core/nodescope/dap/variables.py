"""Variables: what an editor expands at a stop.

Inputs, outputs and gradient are variables; an array expands along its first axis, its parts along
the next, and so on.

Invariant: references are valid until the cursor moves; only requested elements are formatted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from nodescope.arrays.lazy import HeldArray, LazyArray
from nodescope.console_output import shape_words
from nodescope.debug.controller import Controller
from nodescope.debug.edits.syntax import parse_edit
from nodescope.debug.history.history import ValueAtMoment
from nodescope.debug.history.scope_frames import ScopeFrame
from nodescope.debug.history.value_format import array_line, clean, number, seen_line
from nodescope.errors import UsageError
from nodescope.ir.attrs import plain
from nodescope.ir.graph import TensorSpec

# The most elements sent at once to an editor without paging.
MAX_ELEMENTS: Final = 1000
# Rows of another library's array with more elements than this are shown by shape only.
MAX_FETCHED: Final = 1 << 16

Variable = dict[str, Any]


class ShownValues(NamedTuple):
    """Values in a scope, by the name shown."""

    seen: dict[str, ValueAtMoment]


class Facts(NamedTuple):
    """Text about the node."""

    facts: dict[str, str]


class ArrayPart(NamedTuple):
    """A part of an array: ``value`` is its id, 0 for the result of an expression."""

    array: HeldArray
    value: int
    expression: str
    at: tuple[int, ...] = ()


class Variables:
    """References, and the variables that they expand to."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._held: list[ShownValues | Facts | ArrayPart] = []
        self._moved = 0

    def forget(self) -> None:
        """Invalidate all references, because the cursor has moved."""
        self._held = []
        self._moved += 1

    def _refer(self, group: ShownValues | Facts | ArrayPart) -> int:
        self._held.append(group)
        return len(self._held)

    def _of(self, reference: int) -> ShownValues | Facts | ArrayPart:
        if not 1 <= reference <= len(self._held):
            raise UsageError("this variable belongs to an earlier stop")
        return self._held[reference - 1]

    # ------------------------------------------------------------ scopes

    def scopes(self, frame: ScopeFrame) -> list[Variable]:
        """The groups of variables of a frame."""
        if frame.kind == "node":
            return self._of_node()
        if frame.kind == "scope":
            return [self._scope("Nodes", self._nodes_in(frame.name))]
        return []

    def _of_node(self) -> list[Variable]:
        controller = self._controller
        at = controller.moment
        inputs = {value.name: value for value in controller.inputs(at)}
        outputs = {value.name: value for value in controller.outputs(at)}
        groups = [self._scope("Inputs", inputs), self._scope("Outputs", outputs)]
        gradient = controller.gradient(at)
        if gradient is not None:
            groups.append(self._scope("Gradient", {gradient.name: gradient}))
        node = at.node
        facts = {
            "name": node.name,
            "op": node.op,
            "phase": node.phase,
            "scope": node.scope or "(top)",
            "step": str(at.step),
            "execution": str(at.seq),
        }
        if node.source is not None:
            facts["made at"] = str(node.source)
        facts |= {name: str(plain(name, value)) for name, value in node.attrs.items()}
        reference = self._refer(Facts(facts))
        return [*groups, {"name": "Node", "variablesReference": reference, "expensive": False,
                         "namedVariables": len(facts)}]  # fmt: skip

    def _scope(self, name: str, values: dict[str, ValueAtMoment]) -> Variable:
        scope: Variable = {"name": name, "expensive": False, "namedVariables": len(values)}
        if name in ("Inputs", "Outputs"):
            scope["presentationHint"] = "arguments" if name == "Inputs" else "returnValue"
        return {**scope, "variablesReference": self._refer(ShownValues(values))}

    def _nodes_in(self, scope: str) -> dict[str, ValueAtMoment]:
        """The latest values of the nodes directly inside a scope, up to the cursor."""
        controller = self._controller
        at = controller.moment
        values = {}
        for node in controller.history.nodes():
            if node.scope == scope and node.outputs and not node.is_leaf:
                moment = (
                    at if node.id == at.node.id else controller.history.last_of(node.id, at.seq)
                )
                if moment is not None:
                    values[node.name.rpartition("/")[2]] = controller.outputs(moment)[0]
        return values

    # ------------------------------------------------------------ expanding

    def variables(self, reference: int, start: int, count: int, kind: str) -> list[Variable]:
        """The variables of a reference; ``count`` elements from ``start`` on (0: all)."""
        match self._of(reference):
            case ShownValues(seen=values):
                return [] if kind == "indexed" else [self._seen(*entry) for entry in values.items()]
            case Facts(facts=facts):
                if kind == "indexed":
                    return []
                return [{"name": name, "value": clean(text)[:1000], "variablesReference": 0,
                         "presentationHint": {"attributes": ["readOnly"]}}
                        for name, text in facts.items()]  # fmt: skip
            case ArrayPart() as part:
                return [] if kind == "named" else self._elements(part, start, count)
        return []

    def _seen(self, name: str, value: ValueAtMoment) -> Variable:
        step = self._controller.moment.step
        variable: Variable = {"name": clean(name), "value": seen_line(value, step)}
        expression = "value" if value.role == "outputs[0]" else value.role
        if value.role == "gradient":
            expression = "grad"
        if value.array is None:
            return {**variable, "variablesReference": 0,
                    "presentationHint": {"attributes": ["readOnly"]}}  # fmt: skip
        variable["type"] = f"{value.array.dtype} {shape_words(value.array.shape)}"
        if not expression.startswith("outputs"):
            variable["evaluateName"] = expression
        if self._controller.shortfall("edit"):
            variable["presentationHint"] = {"attributes": ["readOnly"]}
        return {**variable, **self.unfolds(value.array, value.value, expression)}

    def unfolds(self, array: HeldArray, value: int = 0, expression: str = "") -> Variable:
        """The reference of an array, and the number of elements along its first axis."""
        if not array.size or array.dtype.hasobject:
            return {"variablesReference": 0}
        reference = self._refer(ArrayPart(array, value, expression))
        memory = {"memoryReference": f"{self._moved}.{reference}"}
        if not array.ndim:
            return {"variablesReference": 0, **memory}
        return {"variablesReference": reference, "indexedVariables": array.shape[0], **memory}

    def memory(self, reference: str) -> HeldArray:
        """The array of a memory reference; nothing of it may have been fetched yet.

        Raises:
            UsageError: The reference is unknown, or the program has continued since.
        """
        moved, _, number = reference.partition(".")
        if not (moved == str(self._moved) and number.isdecimal() and len(number) < 10):
            raise UsageError("this memory belongs to an earlier stop")
        group = self._of(int(number))
        if not isinstance(group, ArrayPart):
            raise UsageError("this memory belongs to an earlier stop")
        return group.array[group.at] if group.at else group.array

    def _elements(self, part: ArrayPart, start: int, count: int) -> list[Variable]:
        first = max(0, start)
        size, *inner_shape = part.array.shape[len(part.at) :]
        end = min(size, first + (count or MAX_ELEMENTS))
        count = (end - first) * math.prod(inner_shape)
        window: Any = (*part.at, slice(first, max(first, end)))
        shapes_only = inner_shape and isinstance(part.array, LazyArray) and count > MAX_FETCHED
        page: Any = None if shapes_only else part.array[window]
        variables = []
        for place in range(first, end):
            index = (*part.at, place)
            variable: Variable = {"name": f"[{place}]", "variablesReference": 0}
            if part.expression:
                variable["evaluateName"] = f"{part.expression}[{', '.join(map(str, index))}]"
            if inner_shape:
                variable["value"] = (
                    str(TensorSpec(tuple(inner_shape), part.array.dtype.name))
                    if page is None
                    else array_line(page[place - first])
                )
                variable["variablesReference"] = self._refer(part._replace(at=index))
                variable["indexedVariables"] = inner_shape[0]
            else:
                variable["value"] = number(page[place - first])
            variables.append(variable)
        return variables

    # ------------------------------------------------------------ changing and watching

    def set(self, reference: int, name: str, text: str) -> Variable:
        """Change a variable to a number, or by ``*= 2``, ``+= 1``, ``clip 0 1``; return its new
        state.

        Raises:
            EditError, UsageError: It cannot be changed that way.
        """
        group = self._of(reference)
        place = ""
        if isinstance(group, ShownValues) and name in group.seen:
            value = group.seen[name].value
        elif isinstance(group, ArrayPart) and group.value:
            value = group.value
            place = ", ".join(map(str, (*group.at, name.strip("[]"))))
        else:
            raise UsageError(f"{name} cannot be changed")
        _, command = parse_edit(f"value[{place}] {_how(text)}")
        self._controller.command(msgspec.structs.replace(command, value=value))
        at = self._controller.moment
        values = (*self._controller.outputs(at), *self._controller.inputs(at))
        changed = next(candidate for candidate in values if candidate.value == value)
        if not place:
            return self._seen(name, changed)
        assert changed.array is not None
        inner = changed.array[tuple(map(int, place.split(", ")))]
        if isinstance(group, ArrayPart):
            # Variables that are already expanded show the new elements.
            self._held[reference - 1] = group._replace(array=changed.array)
        text = array_line(inner) if inner.ndim else number(inner)
        return {"value": text, "variablesReference": 0}

    def change(self, expression: str, text: str) -> None:
        """Change the value that an expression refers to, as `set` does. Raises as `set` does."""
        self._controller.edit(f"{expression} {_how(text)}")

    def maker(self, reference: int, name: str) -> str:
        """The name of the node that produces a variable.

        Raises:
            UsageError: No node produces it, or its node is a leaf, which never runs.
        """
        group = self._of(reference)
        if not isinstance(group, ShownValues) or name not in group.seen:
            raise UsageError(f"{name} is not a value of a node")
        node = self._controller.find(group.seen[name].name.partition(":")[0])
        if node.is_leaf:
            raise UsageError(f"{node.name} only holds data and never runs")
        return node.name


def _how(text: str) -> str:
    heads: Sequence[str] = ("=", "+=", "-=", "*=", "/=", "clip ", "noise ", "load ")
    return text if text.strip().startswith(tuple(heads)) else f"= {text}"
