"""Program: an exported program that can be drawn as a graph, and run node by node.

`Program.draw` defines its nodes in the active run. `Program.run` runs it there: the debugger can
stop at each operator, and each is recorded, as in an eager program. With a loss, the backward pass
follows, computed by autograd.

Invariant: a run does not change the program's parameters and buffers.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from nodescope.adapters.torch.attachment import TorchAttachment
from nodescope.adapters.torch.backward_passes import BackwardPasses
from nodescope.adapters.torch.compat import fake_mode_of, flat_inputs, unflattened
from nodescope.adapters.torch.operations import Operations
from nodescope.adapters.torch.places import Quiet
from nodescope.adapters.torch.static.drawing import Drawn, drawing
from nodescope.adapters.torch.static.graph_places import WRAPPER
from nodescope.adapters.torch.static.interpreter import Running
from nodescope.adapters.torch.storages import Owner
from nodescope.console_output import last_line
from nodescope.emit.emitter import Emitter, active
from nodescope.emit.state import current
from nodescope.errors import GraphError
from nodescope.events import Bus, Event, GraphExtended
from nodescope.ir.graph import Graph, Node, Role, Value
from nodescope.ir.scopes import join

_ROLES: Final[dict[InputKind, Role]] = {
    InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant", InputKind.USER_INPUT: "input",
}  # fmt: skip


class JointResult(NamedTuple):
    """The result of a program with a loss.

    Attributes:
        loss: The loss.
        gradients: The gradients by parameter, except of parameters that the loss does not depend
            on.
    """

    loss: Any
    gradients: dict[str, Any]


class Program:
    """See the module's docstring.

    Args:
        exported: The program.
        loss: The number of the output to differentiate; None for the forward pass alone.
    """

    def __init__(self, exported: ExportedProgram, loss: int | None = None) -> None:
        self.exported = exported
        self.loss = loss
        self._places = [
            node for node in exported.graph_module.graph.nodes if node.op == "placeholder"
        ]
        self._specs = exported.graph_signature.input_specs
        self._owners = tuple(map(self._owner, self._specs, self._places))
        if len(self._specs) != len(self._places):
            raise GraphError("the exported program does not say what its inputs are")

    @property
    def inputs(self) -> tuple[tuple[str, Any], ...]:
        """The inputs of a call, flattened: each with its name, and a tensor without elements."""
        return tuple(
            (owner.label, node.meta.get("val"))
            for spec, owner, node in zip(self._specs, self._owners, self._places, strict=True)
            if spec.kind == InputKind.USER_INPUT
        )

    @property
    def graph(self) -> Graph:
        """The graph, outside of any run. Its kind: ``static``, ``backward-joined`` with a loss."""
        events: list[Event] = []
        bus = Bus()
        bus.add(_Collected(events))
        self._draw(Emitter(bus))
        nodes: dict[int, Node] = {}
        values: dict[int, Value] = {}
        for event in events:
            if isinstance(event, GraphExtended):
                nodes.update((node.id, node) for node in event.nodes)
                values.update((value.id, value) for value in event.values)
        return Graph(
            1, "static" if self.loss is None else "backward-joined",
            nodes=tuple(nodes.values()), values=tuple(values.values()),
        )  # fmt: skip

    def draw(self) -> int:
        """Define the nodes in the active run; return the number of operators.

        Raises:
            GraphError: PyTorch cannot interpret the program without data.
        """
        emitter = active()
        return 0 if emitter is None else self._draw(emitter)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; return its outputs, or a `JointResult` with a loss.

        Raises:
            GraphError: The arguments do not match the program; the message says how.
        """
        emitter, attachment = active(), _attachment()
        with unobserved():
            inputs = self._inputs(args, kwargs)
        if emitter is None or attachment is None:
            return self._interpreted(inputs)
        begins = not emitter.step_open
        if begins:
            self._draw(emitter)
            emitter.begin_step()
        operations = attachment.operations
        with Quiet(operations.place):
            for owner, value in zip(self._owners, inputs, strict=True):
                if isinstance(value, torch.Tensor):
                    operations.values.own(value, owner)
        try:
            with _at_the_top():
                return self._interpreted(inputs)
        finally:
            if begins:
                emitter.end_step()

    def _inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The inputs of the graph, including parameters and buffers."""
        try:
            inputs = flat_inputs(self.exported, args, kwargs)
        except Exception as error:
            raise GraphError(f"the inputs do not fit the program: {last_line(error)}") from error
        return tuple(map(_own_copy, self._specs, inputs))

    def _interpreted(self, inputs: Sequence[Any]) -> Any:
        with torch.set_grad_enabled(self.loss is not None):
            results = Running(self.exported.graph_module).run(*inputs)
        own = self._own_results(results)
        if self.loss is None:
            return unflattened(self.exported, own)
        loss = self._loss_of(own)
        loss.backward()
        with torch.no_grad():
            return JointResult(loss.detach(), self._gradients(inputs))

    def _own_results(self, results: Sequence[Any]) -> list[Any]:
        specs = self.exported.graph_signature.output_specs
        return [
            result
            for spec, result in zip(specs, results, strict=True)
            if spec.kind == OutputKind.USER_OUTPUT
        ]

    def _loss_of(self, results: Sequence[Any]) -> Any:
        assert self.loss is not None
        if self.loss >= len(results) or not isinstance(results[self.loss], torch.Tensor):
            raise GraphError(f"the program has no tensor as its output {self.loss}")
        loss = results[self.loss]
        if not loss.requires_grad:
            raise GraphError(f"output {self.loss} does not depend on any parameter")
        return loss if not loss.dim() else loss.sum()

    def _gradients(self, inputs: Sequence[Any]) -> dict[str, Any]:
        return {
            str(spec.target): value.grad
            for spec, value in zip(self._specs, inputs, strict=True)
            if spec.kind == InputKind.PARAMETER and value.grad is not None
        }

    # Inputs

    def _owner(self, spec: Any, placeholder: Any) -> Owner:
        role = _ROLES.get(spec.kind, "input")
        target = "" if role == "input" else str(spec.target or "")
        path, _, name = target.rpartition(".")
        scope = self._root
        if path.partition(".")[0] == "model" and self._wrapped:
            path = path.partition(".")[2]
        if role == "input":
            return Owner(role, "", str(placeholder.name))
        label = name or str(placeholder.name)
        return Owner(role, join(scope, path.replace(".", "/")).rstrip("/"), label)

    @property
    def _stacks(self) -> Iterator[list[Any]]:
        for node in self.exported.graph_module.graph.nodes:
            stack = node.meta.get("nn_module_stack") or {}
            entries = [item for item in stack.values() if isinstance(item, tuple)]
            if len(entries) and entries[0][0] in ("", "L__self__"):
                yield entries

    @property
    def _wrapped(self) -> bool:
        return any(_class(entries[0]) == WRAPPER for entries in self._stacks)

    @property
    def _root(self) -> str:
        """The scope of the outermost module, named by its class."""
        for entries in self._stacks:
            names = [name for name in map(_class, entries) if name != WRAPPER]
            if names:
                return names[0]
        return ""

    # Drawing

    def _draw(self, emitter: Emitter) -> int:
        drawn = Drawn(emitter)
        fakes = [node.meta.get("val") for node in self._places]
        with (
            warnings.catch_warnings(),
            unobserved(),
            _at_the_top(),
            drawing(drawn, fake_mode_of(fakes)) as operations,
        ):
            # Autograd causes this warning: it accesses the memory of tensors that have none.
            warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
            inputs = []
            with Quiet(operations.place):
                for spec, owner, fake in zip(self._specs, self._owners, fakes, strict=True):
                    value = _drawn_copy(spec, fake)
                    inputs.append(value)
                    if isinstance(value, torch.Tensor):
                        operations.values.own(value, owner)
                        if spec.kind == InputKind.USER_INPUT:  # others get nodes when first read
                            operations.values.id_of(value)
            self._draw_on(operations, drawn, inputs)
        return drawn.count

    def _draw_on(self, operations: Operations, drawn: Drawn, inputs: Sequence[Any]) -> None:
        def instead(node: Any, error: Exception) -> Any:
            if self.loss is not None or "val" not in node.meta:
                raise error
            return node.meta["val"]

        try:
            with torch.set_grad_enabled(self.loss is not None):
                results = Running(self.exported.graph_module, instead).run(*inputs)
            if self.loss is not None:
                loss = self._loss_of(self._own_results(results))
                with BackwardPasses(drawn, operations).begun(loss):  # type: ignore[arg-type]
                    loss.backward()
        except GraphError:
            raise
        except Exception as error:
            raise GraphError(
                f"the program cannot be drawn without data: {last_line(error)}",
                hint="it can be run all the same" if self.loss is None else "",
            ) from error


def _own_copy(spec: Any, value: Any) -> Any:
    """An input for one run; buffers and constants, which the run may write to, are copied.

    Parameters keep `requires_grad`, which some operators check.
    """
    if not isinstance(value, torch.Tensor):
        return value
    plain = value.detach()
    if spec.kind in (InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
        return plain.clone()
    return plain.requires_grad_(value.requires_grad and spec.kind == InputKind.PARAMETER)


def _drawn_copy(spec: Any, fake: Any) -> Any:
    """Like `_own_copy`, for a tensor without elements."""
    if not isinstance(fake, torch.Tensor):
        return fake
    trained = spec.kind == InputKind.PARAMETER and fake.is_floating_point()
    return fake.detach().requires_grad_(trained)


class _Collected:
    """A probe that keeps all events."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def emit(self, event: Event) -> None:
        """Keep an event."""
        self._events.append(event)


def _class(entry: Any) -> str:
    kind = entry[1]
    return str(kind).rpartition(".")[2] if isinstance(kind, str) else str(kind.__name__)


def unobserved() -> contextlib.AbstractContextManager[Any]:
    """A context in which the thread's operators are not observed."""
    attachment = _attachment()
    return contextlib.nullcontext() if attachment is None else Quiet(attachment.operations.place)


def _attachment() -> TorchAttachment | None:
    emitter = active()
    attachments = () if emitter is None else emitter.attachments
    return next((item for item in attachments if isinstance(item, TorchAttachment)), None)


@contextlib.contextmanager
def _at_the_top() -> Iterator[None]:
    """A context in which the thread is outside of all scopes, in the forward phase."""
    state = current()
    saved = (state.scope, state.phase, state.cursor, state.forward, state.source)
    state.scope, state.phase = "", "forward"
    state.cursor = state.forward = state.source = None
    try:
        yield
    finally:
        state.scope, state.phase, state.cursor, state.forward, state.source = saved
