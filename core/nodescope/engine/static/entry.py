"""Entry: a traced function ready to be called again with arguments of the same signature.

Invariant: state is written only after everything has been computed, so that an exception leaves the
program unchanged (except for donated arguments, which are gone).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nodescope.console_output import shape_words
from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.tape import alias_of
from nodescope.engine.run import out_of_bounds
from nodescope.engine.source import where
from nodescope.engine.static.donation import donate
from nodescope.engine.static.guards import Guards
from nodescope.engine.static.joint import Joint, freed_root
from nodescope.engine.static.lowering import Lowering, Wish, closed
from nodescope.engine.static.observed_run import runs_as_traced, watched_of
from nodescope.engine.static.play import play
from nodescope.engine.static.tracing import Binding, Traced
from nodescope.engine.tensor import FREED, Tensor, alias, changed, make, settled
from nodescope.engine.trees import LEAF as TREE_LEAF
from nodescope.engine.trees import unflatten
from nodescope.errors import BoundsError, NodescopeError
from nodescope.ir.graph import Graph
from nodescope.ops.calls import Scalar
from nodescope.ops.plan import Plan
from nodescope.passes.own import is_leafs, roots_of

_new = Tensor.__new__
_ndarray = np.ndarray
FROM_LEAF, FROM_OUTSIDE, FROM_RATE, FROM_GRADIENT = range(4)
"""Sources of fed values."""


class Stale(Exception):
    """The names of the numbers that an optimizer computes before each call have changed."""


class Entry:
    """One traced graph, its plan, and the flow of arguments, state and results.

    Args:
        traced: The recorded trace.
        guards: Its dependencies besides the arguments.
        name: The function's name.
        donated: Positions of the argument leaves that are given away.
        wish: How to compile it.
        joint: Its derivative, if already known.
        patience: Number of plain runs before it is compiled.
    """

    def __init__(
        self,
        traced: Traced,
        guards: Guards,
        name: str,
        donated: tuple[int, ...] = (),
        *,
        wish: Wish,
        joint: Joint | None = None,
        patience: int = 0,
    ) -> None:
        self.traced, self.guards, self.name = traced, guards, name
        builder = traced.builder
        self.order = {position: i for i, position in enumerate(traced.form.dynamic)}
        self.donated = tuple(self.order[leaf] for leaf in donated)
        self.given_away = donated
        self.joint = joint or Joint.of(traced, name, wish)
        residuals = self.joint.residuals if self.joint else ()
        self.outputs = (
            *(builder.value_of(tensor) for tensor in traced.tensors),
            *(value for _, value in traced.writes),
        )
        nodes = tuple(builder.nodes[: traced.mark])
        last = max((max(node.outputs, default=0) for node in nodes), default=0)
        self.inputs = tuple(value for value in builder.inputs if value <= last)
        self.graph = Graph(
            id=builder.id, kind="static", inputs=self.inputs, outputs=self.outputs, nodes=nodes,
            values=tuple(builder.values[:last]),
            constants=tuple(array for array in builder.arrays if array <= last),
        )  # fmt: skip
        self.plan = Plan(self.graph, builder.arrays, (*self.outputs, *residuals), self.inputs)
        self.lowering = Lowering(
            self.plan, closed(self.plan, nodes), builder.arrays, wish, name, patience
        )
        if self.joint is not None:
            self.joint.forward = self.lowering
        self.feeding = [self._source(value) for value in self.inputs]
        self._hosts = [
            (reader, {key.rpartition(":")[0] for key in ids}) for reader, ids in builder.hosts
        ]
        self.owners: list[Any] = [_owner(reader) for reader, _ in builder.hosts]
        self._owners = [owner for owner in self.owners if hasattr(owner, "steps")]
        self._held = tuple(
            (tensor, tensor.data.shape, tensor.edge is None)
            for tensor in map(traced.binding, (tensor for tensor, _ in builder.captures))
            if isinstance(tensor, Tensor)
        )
        self._held_ids = {id(tensor) for tensor, _, _ in self._held}
        self._tied = tuple((self.order[position], tensor) for position, tensor in traced.tied)
        self._grads = tuple(
            (self._place(binding), None if stand_in is None else _form(stand_in))
            for binding, stand_in in traced.reads
        )
        positions = {id(tensor): i for i, tensor in enumerate(traced.tensors)}
        self._gradients = [
            (self._place(binding), None if after is None else positions[id(after)])
            for binding, after in traced.grads
        ]
        self.writes = [(self._place(binding), value) for binding, value in traced.writes]
        self._shared = _shared(self.plan, self.outputs[len(traced.tensors) :])
        begun = map(builder.began_at, self.outputs[: len(traced.tensors)])
        self._losses = tuple((i, site) for i, site in enumerate(begun) if site is not None)
        self._freed = tuple(
            i for i, tensor in enumerate(traced.tensors) if freed_root(traced, tensor)
        )
        self.results: list[tuple[str, Any]] = [
            (kind, self.order[result] if kind == "leaf" else result)
            for kind, result in traced.results
        ]
        alone = traced.structure == TREE_LEAF and self.results[0][0] == "value"
        self._single: int | None = self.results[0][1] if alone else None
        self.calls = 0

    def _place(self, binding: Binding) -> Binding:
        return self.order[binding] if isinstance(binding, int) else binding

    def _source(self, value: int) -> tuple[int, Any, Any]:
        traced, builder = self.traced, self.traced.builder
        position = traced.fed.get(value)
        if position is not None:
            return FROM_LEAF, self.order[position], None
        for tensor, known in builder.captures:
            if known == value:
                binding = self._place(traced.binding(tensor))
                if isinstance(binding, int):
                    return FROM_LEAF, binding, None
                return FROM_OUTSIDE, binding, None
        for i, (_, ids) in enumerate(builder.hosts):
            for key, known in ids.items():
                if known == value:
                    return FROM_RATE, i, key.rpartition(":")[0]
        for binding, stand_in in traced.reads:
            if stand_in is not None and builder.value_of(stand_in) == value:
                return FROM_GRADIENT, self._place(binding), None
        raise AssertionError(f"value {value} of {self.name} is fed by nothing")

    def lowerings(self) -> list[tuple[str, Lowering]]:
        """The compiled parts: the function, and its derivatives used so far."""
        derivatives = [] if self.joint is None else self.joint.lowerings()
        return [("the function", self.lowering), *(("its derivative", d) for d in derivatives)]

    # Checking arguments

    def stale(self, leaves: Sequence[Any]) -> str:
        """Why the entry cannot be called now, or ``""``."""
        if not self.guards.hold():
            return self.guards.changed()
        for tensor, shape, constant in self._held:
            if tensor.data.shape != shape:
                now = shape_words(tensor.data.shape)
                return f"captured {_called(tensor)}: shape {shape_words(shape)} → {now}"
            if (tensor.edge is None) is not constant:
                change = "no longer wants" if tensor.edge is None else "now wants"
                return f"captured {_called(tensor)} {change} a gradient"
        for place, form in self._grads:
            tensor = _of(place, leaves)
            gradient = getattr(tensor, "_grad", None)
            if (gradient is None) is not (form is None):
                before = "None" if form is None else "set"
                return f"{_called(tensor)}.grad was {before}, but is not now"
            if gradient is not None and _form(gradient) != form:
                return f"{_called(tensor)}.grad has another shape or dtype"
        for i, tensor in self._tied:
            if leaves[i] is not tensor:
                return "an argument is another tensor than the one that is captured, too"
        if self._held_ids:
            for leaf in leaves:
                if id(leaf) in self._held_ids:
                    return f"an argument is {_called(leaf)}, which the function also captures"
        return ""

    # Running

    def run(self, leaves: list[Any]) -> Any:
        """Call the graph. Raises what its operations raise; `Stale` before anything has run."""
        self.calls += 1
        observer = dispatch_mode.observer()
        if observer is not None:
            return self._observed(leaves, observer)
        before = self._steps()
        try:
            rates = self._rates()
            feeds: list[Any] = []
            for kind, place, name in self.feeding:
                if kind == FROM_LEAF:
                    leaf = leaves[place]
                    feeds.append(leaf.data if leaf.__class__ is Tensor else np.asarray(leaf))
                elif kind == FROM_OUTSIDE:
                    feeds.append(place.data)
                elif kind == FROM_RATE:
                    feeds.append(rates[place][name])
                else:
                    feeds.append(_of(place, leaves)._grad.data)
            kept = [*feeds] if self.joint is not None else None
            if self.donated:
                for position in self.donated:
                    if leaves[position].__class__ is Tensor:
                        donate(leaves[position], self.name)
                arrays = self.lowering.run(_emptied(feeds))  # type: ignore[arg-type]
            else:
                kept = feeds
                arrays = self.lowering.run(feeds)
        except BaseException as error:
            for owner, steps in before:
                owner.steps = steps
            if isinstance(error, Exception) and not isinstance(error, Stale):
                better = self._suspected(error) if self.donated else self._located(error, feeds)
                if better is not error:
                    raise better from error
            raise
        return self._finished(leaves, arrays, kept)

    def _finished(
        self, leaves: list[Any], arrays: list[Any], feeds: list[Any] | None,
        ids: Sequence[int] = (), known: Mapping[int, int] | None = None,
    ) -> Any:  # fmt: skip
        """Write back the graph's changes, and return the results.

        Args:
            leaves: The arguments.
            arrays: The results of the plan.
            feeds: The plan's inputs.
            ids: Value ids of the arrays in the observed run, if any.
            known: Value ids in the observed run of the plan's inputs and outputs, by value id in
                the graph.
        """
        count = len(self.traced.tensors)
        if self.joint is not None:
            assert feeds is not None
            tensors = self.joint.results(leaves, arrays, dict(zip(self.inputs, feeds, strict=True)),
                                         len(self.outputs), ids, known)  # fmt: skip
        else:
            tensors = []
            for array in arrays[:count]:
                result = _new(Tensor)
                result.data = array
                result.edge = None
                tensors.append(result)
        for tensor, vid in zip(tensors, ids, strict=False):
            tensor._vid = vid
        if self._losses:
            self._tell_losses(tensors)
        for i in self._freed:
            tensors[i].edge = FREED
        if self.writes:
            for i, (place, _) in enumerate(self.writes, count):
                target = _of(place, leaves)
                array = arrays[i]
                _store(target, array.copy(order="K") if i - count in self._shared else array)
                if ids:
                    settled(target)._vid = ids[i]
        if self._gradients:
            self._set_grads(leaves, tensors)
        if self._single is not None:
            return tensors[self._single]
        return self._assembled(leaves, tensors)

    def _tell_losses(self, tensors: list[Tensor]) -> None:
        """Report the losses of backward passes inside the function that are among its results."""
        tracer = dispatch_mode.attending()
        if tracer is not None:
            for i, site in self._losses:
                tracer.began(tensors[i], site)

    def _set_grads(self, leaves: list[Any], tensors: list[Tensor]) -> None:
        """Set gradients, each in its own memory: writing to one must not change another tensor."""
        used = {id(leaf.data) for leaf in leaves if leaf.__class__ is Tensor}
        for place, position in self._gradients:
            target = settled(_of(place, leaves))
            if position is None:
                target._grad = None
                continue
            gradient = tensors[position]
            data = gradient.data
            if data.base is not None or id(data) in used:
                data = data.copy(order="K")
                dispatch_mode.move(gradient, data)
            used.add(id(data))
            target._grad = gradient

    def _assembled(self, leaves: list[Any], tensors: list[Tensor]) -> Any:
        results: list[Any] = []
        for kind, item in self.results:
            if kind == "value":
                results.append(tensors[item])
            elif kind == "leaf":
                results.append(leaves[item])
            elif kind == "made":
                result = _new(Tensor)  # the function makes a new tensor per call
                result.data, result.edge = item.data.copy(order="K"), item.edge
                results.append(result)
            elif kind == "static" and item.__class__ is _ndarray:
                results.append(item.copy())
            else:
                results.append(item)
        assert self.traced.structure is not None
        return unflatten(self.traced.structure, results)

    def _observed(self, leaves: list[Any], observer: Any) -> Any:
        """Run through the tracer: kernel by kernel as compiled, or as the plain function runs."""
        watched = watched_of(self.lowering, self.traced.builder.gradients)
        if watched is None:
            return self._played(leaves)
        before = self._steps()
        feeds: list[Any] = []
        try:
            tensors_in = self._tensors(leaves)
            feeds = [tensor.data if tensor.__class__ is Tensor else tensor for tensor in tensors_in]
            tensors = watched.run(observer, tensors_in)
        except BaseException as error:
            for owner, steps in before:
                owner.steps = steps
            if feeds and runs_as_traced(self.lowering, error, feeds):
                return self._observed(leaves, observer)
            raise
        ids = [tensor._vid for tensor in tensors]
        known = {
            value: getattr(tensor, "_vid", 0)
            for value, tensor in zip((*self.inputs, *self.plan.outputs), (*tensors_in, *tensors),
                                   strict=True)
            if tensor.__class__ is Tensor
        }  # fmt: skip
        outcome = self._finished(leaves, [tensor.data for tensor in tensors], feeds, ids, known)
        taken = {known.get(value) for value in self.inputs}
        watched.note_result(observer, [value for value in ids if value not in taken], outcome)
        if self.donated:
            for position in self.donated:
                if leaves[position].__class__ is Tensor:
                    donate(leaves[position], self.name)
        return outcome

    def _tensors(self, leaves: list[Any]) -> list[Any]:
        """The feeds as tensors that an observer may know; numbers stay numbers."""
        rates, tensors = self._rates(), []
        for kind, place, name in self.feeding:
            if kind == FROM_LEAF:
                leaf = leaves[place]
                tensors.append(leaf if leaf.__class__ is Tensor else make(np.asarray(leaf)))
            elif kind == FROM_OUTSIDE:
                tensors.append(settled(place))
            elif kind == FROM_RATE:
                tensors.append(rates[place][name])
            else:
                tensors.append(_of(place, leaves)._grad)
        return tensors

    def _played(self, leaves: list[Any]) -> Any:
        """Run node by node through the tracer, so that the run looks like the plain function's."""
        before = self._steps()
        try:
            values = dict(zip(self.inputs, self._tensors(leaves), strict=True))
            play(self.traced, self.graph.nodes, values, {node.id for node in self.plan.nodes})
        except BaseException:
            for owner, steps in before:
                owner.steps = steps
            raise
        tensors: list[Tensor] = []
        handled = {id(leaf) for leaf in leaves}
        for output, value in zip(self.traced.tensors, self.outputs, strict=False):
            tensor = values[value]
            if output.edge is None:
                tensor = alias(tensor)
            elif id(tensor) in handled:
                tensor = alias_of(tensor)
            handled.add(id(tensor))
            tensors.append(tensor)
        self._tell_losses(tensors)
        for i in self._freed:
            tensors[i].edge = FREED
        for i, (place, value) in enumerate(self.writes):
            target, array = _of(place, leaves), values[value].data
            _store(target, array.copy(order="K") if i in self._shared else array)
            settled(target)._vid = values[value]._vid
        self._set_grads(leaves, tensors)
        if self.donated:
            for position in self.donated:
                if leaves[position].__class__ is Tensor:
                    donate(leaves[position], self.name)
        return self._assembled(leaves, tensors)

    def _steps(self) -> list[tuple[Any, int]]:
        """The optimizers that count this call as a step, with their counts before it."""
        return [(owner, owner.steps) for owner in self._owners]

    def next_rates(self) -> list[dict[str, float]]:
        """The optimizers' numbers for the next call, without counting a step."""
        before = self._steps()
        try:
            return self._rates()
        finally:
            for owner, steps in before:
                owner.steps = steps

    def _rates(self) -> list[dict[str, float]]:
        all_rates = []
        for reader, names in self._hosts:
            rates = reader()
            if rates.keys() != names:
                raise Stale("the optimizer's settings differ from those when it was traced")
            all_rates.append(rates)
        return all_rates

    def _suspected(self, error: Exception) -> Exception:
        """The error with the lines that may have raised it: a retry is impossible without the
        arguments.
        """
        if type(error) is not IndexError:
            return error
        integers = {
            value.id for value in self.plan.graph.values if np.dtype(value.spec.dtype).kind in "iu"
        }
        lines = [f"{call.op.name} at {call.node.source}" for call in self.plan.calls
                 if call.op.family == "index" and not integers.isdisjoint(call.node.inputs)
                 and call.node.source is not None]  # fmt: skip
        if not lines:
            return error
        first, *more = dict.fromkeys(lines)
        message = f"{self.name}: {error}, in {first}" + (
            f" or one of {len(more)} more" if more else ""
        )
        return BoundsError(
            message, source=where(),
            hint="its arguments were donated, so it cannot be rerun for details: omit "
            "donate= for that; np.clip keeps indices in range",
        )  # fmt: skip

    def _located(self, error: Exception, feeds: list[Any]) -> Exception:
        """The error with the node that raised it, found by running the nodes once more."""
        values: dict[int, Any] = dict(self.plan.constants)
        values.update(zip(self.inputs, feeds, strict=False))
        for call in self.plan.calls:
            args = [
                argument.value if isinstance(argument, Scalar) else values[argument]
                for argument in call.args
            ]
            try:
                data = call.op.impl(*args, **call.attrs)
            except Exception as again:
                source = str(call.node.source or where())
                if isinstance(error, NodescopeError) and type(again) is type(error):
                    error.source = source
                elif type(error) is IndexError:
                    return out_of_bounds(call.op, error, source)
                elif hasattr(error, "add_note"):
                    error.add_note(f"in {call.node.name}, made at {call.node.source}")
                return error
            arrays = data if isinstance(data, tuple) else (data,)
            values.update(zip(call.node.outputs, map(np.asarray, arrays), strict=True))
        return error


def _emptied(feeds: list[Any]) -> Iterator[Any]:
    """Yield the feeds, removing each from the list, so that it can be released."""
    feeds.reverse()
    while feeds:
        yield feeds.pop()


def _shared(plan: Plan, written: Sequence[int]) -> frozenset[int]:
    """Positions of the written values that share memory with other values.

    State needs its own memory, as `nodescope.assign` gives it: writing into it later must not
    change an argument, a result, or a value that a derivative will need.
    """
    producers = {value: node for node in plan.graph.nodes for value in node.outputs}
    root_counts = Counter(root for value in plan.outputs for root in roots_of(producers.get, value))
    return frozenset(
        i
        for i, value in enumerate(written)
        for root in roots_of(producers.get, value)
        if root_counts[root] > 1 or is_leafs(producers.get, root)
    )


def _store(target: Tensor, array: Any) -> None:
    target = settled(target)
    target.data = array
    target._vid = 0  # unknown to the observer, unless the caller sets it
    changed(target)


def _owner(reader: Any) -> Any:
    """The optimizer whose numbers a function returns."""
    return getattr(getattr(reader, "func", reader), "__self__", None)


def _form(tensor: Tensor) -> tuple[Any, Any]:
    return tensor.data.shape, tensor.data.dtype


def _of(binding: Binding, leaves: Sequence[Any]) -> Any:
    """The tensor of a binding in a call with these leaves."""
    return leaves[binding] if isinstance(binding, int) else binding


def _called(tensor: Any) -> str:
    return getattr(tensor, "name", "") or "a tensor"
