"""Variables: what an editor unfolds while the program stands.

Inputs, outputs and gradient are variables; an array unfolds by its first axis, and so on inwards.

Invariant: references live until the cursor moves; only what is asked for is made text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from nodescope.debug.breakpoints import is_leaf
from nodescope.debug.controller import Controller
from nodescope.debug.edit_text import parse_edit
from nodescope.debug.frames import ScopeFrame
from nodescope.debug.moments import Seen
from nodescope.debug.words import array_line, clean, number, seen_line
from nodescope.errors import UsageError
from nodescope.events import Array

# An editor that does not page gets no more than so many elements at once.
MAX_ELEMENTS: Final = 1000

Variable = dict[str, Any]


class Held(NamedTuple):
    """Values in a scope, by the name that is shown."""

    seen: dict[str, Seen]


class Facts(NamedTuple):
    """Text about the node."""

    facts: dict[str, str]


class Elements(NamedTuple):
    """A part of an array: ``value`` is an id, 0 for what an expression gave."""

    array: Array
    value: int
    expression: str
    at: tuple[int, ...] = ()


class Variables:
    """References, and what they unfold to."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._held: list[Held | Facts | Elements] = []
        self._moved = 0

    def forget(self) -> None:
        """The cursor moved: what was given out means nothing any more."""
        self._held = []
        self._moved += 1

    def _refer(self, held: Held | Facts | Elements) -> int:
        self._held.append(held)
        return len(self._held)

    def _of(self, reference: int) -> Held | Facts | Elements:
        if not 1 <= reference <= len(self._held):
            raise UsageError("this variable belongs to an earlier stop")
        return self._held[reference - 1]

    # ------------------------------------------------------------ what there is

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
        inputs = {each.name: each for each in controller.inputs(at)}
        outputs = {each.name: each for each in controller.outputs(at)}
        found = [self._scope("Inputs", inputs), self._scope("Outputs", outputs)]
        gradient = controller.gradient(at)
        if gradient is not None:
            found.append(self._scope("Gradient", {gradient.name: gradient}))
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
        facts |= {name: str(value) for name, value in node.attrs.items()}
        reference = self._refer(Facts(facts))
        return [*found, {"name": "Node", "variablesReference": reference, "expensive": False,
                         "namedVariables": len(facts)}]  # fmt: skip

    def _scope(self, name: str, held: dict[str, Seen]) -> Variable:
        scope: Variable = {"name": name, "expensive": False, "namedVariables": len(held)}
        if name in ("Inputs", "Outputs"):
            scope["presentationHint"] = "arguments" if name == "Inputs" else "returnValue"
        return {**scope, "variablesReference": self._refer(Held(held))}

    def _nodes_in(self, scope: str) -> dict[str, Seen]:
        """The latest values of the nodes right inside a scope, up to the cursor."""
        controller = self._controller
        at = controller.moment
        found = {}
        for node in controller.history.nodes():
            if node.scope == scope and node.outputs and not is_leaf(node):
                then = at if node.id == at.node.id else controller.history.last_of(node.id, at.seq)
                if then is not None:
                    found[node.name.rpartition("/")[2]] = controller.outputs(then)[0]
        return found

    # ------------------------------------------------------------ unfolding

    def variables(self, reference: int, start: int, count: int, kind: str) -> list[Variable]:
        """What a reference unfolds to; elements from ``start`` on, ``count`` of them (0: all)."""
        match self._of(reference):
            case Held(seen=seen):
                return [] if kind == "indexed" else [self._seen(*each) for each in seen.items()]
            case Facts(facts=facts):
                if kind == "indexed":
                    return []
                return [{"name": name, "value": clean(text)[:1000], "variablesReference": 0,
                         "presentationHint": {"attributes": ["readOnly"]}}
                        for name, text in facts.items()]  # fmt: skip
            case Elements() as elements:
                return [] if kind == "named" else self._elements(elements, start, count)
        return []

    def _seen(self, name: str, seen: Seen) -> Variable:
        step = self._controller.moment.step
        found: Variable = {"name": clean(name), "value": seen_line(seen, step)}
        expression = "value" if seen.role == "outputs[0]" else seen.role
        if seen.role == "gradient":
            expression = "grad"
        if seen.array is None:
            return {**found, "variablesReference": 0,
                    "presentationHint": {"attributes": ["readOnly"]}}  # fmt: skip
        found["type"] = f"{seen.array.dtype} {seen.array.shape}"
        if not expression.startswith("outputs"):
            found["evaluateName"] = expression
        return {**found, **self.unfolds(seen.array, seen.value, expression)}

    def unfolds(self, array: Array, value: int = 0, expression: str = "") -> Variable:
        """The reference of an array, and how many elements its first axis has."""
        if not array.size or array.dtype.hasobject:
            return {"variablesReference": 0}
        reference = self._refer(Elements(array, value, expression))
        memory = {"memoryReference": f"{self._moved}.{reference}"}
        if not array.ndim:
            return {"variablesReference": 0, **memory}
        return {"variablesReference": reference, "indexedVariables": array.shape[0], **memory}

    def memory(self, reference: str) -> Array:
        """The array of a memory reference.

        Raises:
            UsageError: It was never given out, or the program went on since.
        """
        moved, _, number = reference.partition(".")
        if not (moved == str(self._moved) and number.isdecimal() and len(number) < 10):
            raise UsageError("this memory belongs to an earlier stop")
        held = self._of(int(number))
        if not isinstance(held, Elements):
            raise UsageError("this memory belongs to an earlier stop")
        array: Array = held.array[held.at]
        return array

    def _elements(self, elements: Elements, start: int, count: int) -> list[Variable]:
        part = elements.array[elements.at]
        end = min(len(part), start + (count or MAX_ELEMENTS))
        found = []
        for place in range(max(0, start), end):
            index = (*elements.at, place)
            inner = part[place]
            each: Variable = {"name": f"[{place}]", "variablesReference": 0}
            if elements.expression:
                each["evaluateName"] = f"{elements.expression}[{', '.join(map(str, index))}]"
            if inner.ndim:
                each["value"] = array_line(inner)
                each["variablesReference"] = self._refer(elements._replace(at=index))
                each["indexedVariables"] = len(inner)
            else:
                each["value"] = number(inner)
            found.append(each)
        return found

    # ------------------------------------------------------------ changing and watching

    def set(self, reference: int, name: str, text: str) -> Variable:
        """Change a variable to a number, or by ``*= 2``, ``+= 1``, ``clip 0 1``; its new state.

        Raises:
            EditError, UsageError: It cannot be changed so.
        """
        held = self._of(reference)
        place = ""
        if isinstance(held, Held) and name in held.seen:
            value = held.seen[name].value
        elif isinstance(held, Elements) and held.value:
            value = held.value
            place = ", ".join(map(str, (*held.at, name.strip("[]"))))
        else:
            raise UsageError(f"{name} cannot be changed")
        _, command = parse_edit(f"value[{place}] {_how(text)}")
        self._controller.command(msgspec.structs.replace(command, value=value))
        at = self._controller.moment
        seen = (*self._controller.outputs(at), *self._controller.inputs(at))
        found = next(each for each in seen if each.value == value)
        if not place:
            return self._seen(name, found)
        assert found.array is not None
        inner = found.array[tuple(map(int, place.split(", ")))]
        if isinstance(held, Elements):
            # What is unfolded already shows the new elements.
            self._held[reference - 1] = held._replace(array=found.array)
        text = array_line(inner) if inner.ndim else number(inner)
        return {"value": text, "variablesReference": 0}

    def change(self, expression: str, text: str) -> None:
        """Change what an expression names, as `set` does. Raises as it does."""
        self._controller.edit(f"{expression} {_how(text)}")

    def maker(self, reference: int, name: str) -> str:
        """The name of the node whose output a variable is.

        Raises:
            UsageError: It is none; or a leaf, which never runs.
        """
        held = self._of(reference)
        if not isinstance(held, Held) or name not in held.seen:
            raise UsageError(f"{name} is not a value of a node")
        node = self._controller.find(held.seen[name].name.partition(":")[0])
        if is_leaf(node):
            raise UsageError(f"{node.name} only holds data and never runs")
        return node.name


def _how(text: str) -> str:
    heads: Sequence[str] = ("=", "+=", "-=", "*=", "/=", "clip ", "noise ", "load ")
    return text if text.strip().startswith(tuple(heads)) else f"= {text}"
