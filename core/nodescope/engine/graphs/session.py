"""Sessions: run parts of a graph that was built by hand, and keep its variables.

Invariant: a run executes what its fetches need and nothing else; a read of a variable that is not
ordered after an update gives the value from the start of the run.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, NamedTuple

import numpy as np

from nodescope.engine import dispatch_mode
from nodescope.engine.crosscheck.active import cross_check
from nodescope.engine.execution.executor import Effects, execute_observed, run_calls
from nodescope.engine.execution.partition import run_partitions
from nodescope.engine.graphs.fetches import Fetches, feed_array
from nodescope.engine.graphs.graph import Graph, get_default_graph
from nodescope.engine.graphs.names import Variable
from nodescope.engine.graphs.program import PreparedRun, RunMetadata, RunOptions, prepared
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor, make
from nodescope.errors import UsageError
from nodescope.ir.graph import Node
from nodescope.ops.calls import Call
from nodescope.ops.op import Array
from nodescope.ops.traits import traits_of, with_state

_MOST_PLANS = 128
Form = Literal["in order", "at once", "threads", "partitions"]
"""``in order``: node by node, with effects. ``at once``: the same without effects, as one plan."""


class ObservedRun(NamedTuple):
    """An observed run, with the data to repeat it.

    Attributes:
        step: The training step.
        feeds: Feeds of the program's plan.
        arrays: Its outputs.
        before, after: Values of the variables before and after the run, by value id.
    """

    session: Session
    program: PreparedRun
    options: RunOptions
    step: int
    feeds: list[Array]
    arrays: list[Array]
    before: dict[int, Array]
    after: dict[int, Array]


class Session:
    """Runs a graph. Also a context manager that closes the session.

    Args:
        graph: The graph to run; the default graph if None.

    Attributes:
        graph: The graph.
        run_metadata: A description of the last run.
    """

    def __init__(self, graph: Graph | None = None) -> None:
        if graph is not None and not isinstance(graph, Graph):
            raise UsageError(
                f"Session: {type(graph).__name__} is not a nodescope.Graph", source=where()
            )
        self.graph = get_default_graph() if graph is None else graph
        self.run_metadata = RunMetadata()
        self._values: dict[int, Array] = dict(self.graph.saved)
        self._lock = threading.RLock()
        self._drawing = threading.Lock()
        self._programs: OrderedDict[Any, PreparedRun] = OrderedDict()
        self._closed = False

    def __enter__(self) -> Session:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the variables. Nothing can be run afterwards; closing twice is allowed."""
        with self._lock:
            self._closed = True
            self._values.clear()
            self._programs.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this session is closed", source=where(), hint="make another Session")

    def run(
        self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None,
        options: RunOptions | None = None,
    ) -> Any:  # fmt: skip
        """Run the nodes that ``fetches`` need.

        Args:
            fetches: A tensor, an operation, a name of one, or lists, tuples, named tuples and dicts
                of them.
            feed_dict: Values for placeholders, or for any other tensors; their operations then
                do not run.

        Returns:
            The structure of ``fetches``, with a NumPy array for each tensor and None for each
            operation.

        Raises:
            UsageError: A fetch or feed belongs to another graph; a required placeholder was not
                fed; a required variable has no value yet; the session is closed.
            ShapeError, DtypeError: A feed does not match its tensor.
        """
        self._check_open()
        parsed = Fetches(self.graph, fetches)
        return self._run(parsed, self._fed(feed_dict or {}), options or RunOptions())

    def make_callable(
        self, fetches: Any, feed_list: Iterable[Any] = (), options: RunOptions | None = None
    ) -> Callable[..., Any]:
        """A function that runs ``fetches``, with the values for ``feed_list`` as its arguments."""
        self._check_open()
        targets, feed_values = Fetches(self.graph, fetches), list(feed_list)

        def call(*values: Any) -> Any:
            self._check_open()
            if len(values) != len(feed_values):
                raise UsageError(
                    f"this callable takes {len(feed_values)} values, not {len(values)}",
                    source=where(),
                )
            fed = self._fed(dict(zip(map(_Key, feed_values), values, strict=True)))
            return self._run(targets, fed, options or RunOptions())

        return call

    def variable_values(self) -> dict[int, Array]:
        """The arrays of the variables that have values, by value id."""
        with self._lock:
            values = dict(self._values)
        for variable in self.graph.variables.values():
            if variable.outside is not None:
                values[variable.value] = variable.outside.data
        return values

    def _fed(self, feed_dict: Mapping[Any, Any]) -> dict[int, Array]:
        graph, fed = self.graph, {}
        for key, fed_value in feed_dict.items():
            item = key.item if isinstance(key, _Key) else key
            tensor = graph.get_tensor_by_name(item) if isinstance(item, str) else item
            if not isinstance(tensor, Tensor):
                raise UsageError(f"feed_dict: {type(tensor).__name__} cannot be fed",
                                 source=where(), hint="feed tensors")  # fmt: skip
            value = graph.value_here(tensor)
            if value in fed:
                raise UsageError(f"feed_dict: {graph.producer(value).name!r} is fed twice",
                                 source=where())  # fmt: skip
            fed[value] = feed_array(graph.producer(value), graph.values[value - 1], fed_value)
        return fed

    # Programs

    def _program(self, fetches: Fetches, fed: Mapping[int, Array]) -> PreparedRun:
        key = (fetches.values, fetches.nodes, frozenset(fed), self.graph.version)
        with self._lock:
            program = self._programs.get(key)
            if program is None:
                program = self._programs[key] = prepared(self.graph, fetches, frozenset(fed))
                while len(self._programs) > _MOST_PLANS:
                    self._programs.popitem(last=False)
            else:
                self._programs.move_to_end(key)
        return program

    # Running

    def _run(self, fetches: Fetches, fed: dict[int, Array], options: RunOptions) -> Any:
        if dispatch_mode.builder() is not None:  # inside of `as_default`
            with dispatch_mode.building(None, scope=None):
                return self._run(fetches, fed, options)
        program = self._program(fetches, fed)
        if program.chained:  # two concurrent draws would be equal
            with self._drawing:
                arrays = self._execute(program, fed, options)
        else:
            arrays = self._execute(program, fed, options)
        self.run_metadata = program.metadata
        if self.graph.losses and program.trains and dispatch_mode.observer() is None:
            self._tell_losses(program, arrays)
        return fetches.filled(dict(zip(fetches.values, arrays, strict=True)))

    def _execute(
        self, program: PreparedRun, fed: dict[int, Array], options: RunOptions
    ) -> list[Array]:
        values: dict[int, Array] = dict(fed)
        first = self._first_values(program)
        for variable in program.reads:
            if variable.value in values:
                continue
            array = self._value(variable)
            if array is None:
                if variable.value not in first:
                    raise _uninitialised(self.graph, variable)
                # Only its shape and dtype count: this run gives it its initial value.
                array = np.broadcast_to(np.zeros((), variable.spec.dtype), variable.spec.shape)
            values[variable.value] = array
        for reader, variables in program.hosts:
            numbers = reader()
            for name, value, dtype in variables:
                values[value] = np.asarray(numbers[name], dtype)
        feeds = [values[value] for value in program.plan.fed]
        tracer = dispatch_mode.observer()
        if tracer is not None:
            check = cross_check()
            before = self.variable_values() if check is not None else {}
            outputs = execute_observed(
                tracer, program.plan, feeds, key=f"graph{self.graph.id}",
                gradients=self.graph.gradients, effects=self._effects(program, observed=True),
            )  # fmt: skip
            arrays = [output.data for output in outputs]
            if check is not None:
                run = ObservedRun(self, program, options, tracer.step, feeds, arrays,
                                  before, self.variable_values())  # fmt: skip
                check.session(run)
            if self.graph.losses and program.trains:
                self._tell_losses(program, outputs)
            return arrays
        effects = self._effects(program)
        program.metadata = replace(program.metadata, parallel=False)
        places = options.partition if options.partition is not None else program.several_devices
        if places:
            return self._in_places(program, feeds, effects)
        if program.metadata.peak_bytes is None and not options.parallel:
            return run_calls(program.plan, feeds, effects=effects, measure=program.measured)
        if options.parallel is None and program.schedule.pays:
            return self._tried(program, feeds, effects)
        return self._arrays(program, feeds, effects, threads=options.parallel is True)

    def _tell_losses(self, program: PreparedRun, outputs: Sequence[Any]) -> None:
        """Report the losses of the run's backward passes that are fetched.

        Args:
            outputs: The program's outputs: arrays, or the tensors that an observer knows.
        """
        tracer, losses = dispatch_mode.attending(), self.graph.losses
        for value, output in zip(program.plan.outputs, outputs, strict=False):
            if tracer is not None and value in losses:
                tracer.began(output if output.__class__ is Tensor else make(output), losses[value])

    def _tried(self, program: PreparedRun, feeds: list[Array], effects: Effects) -> list[Array]:
        threads = program.trial.threads()
        start = time.perf_counter_ns()
        arrays = self._arrays(program, feeds, effects, threads=threads)
        program.trial.took(threads, time.perf_counter_ns() - start)
        return arrays

    def _arrays(
        self, program: PreparedRun, feeds: list[Array], effects: Effects, *, threads: bool
    ) -> list[Array]:
        if threads:
            program.metadata = replace(program.metadata, parallel=True)
            return program.schedule.run(feeds, effects)
        if program.plain:
            try:
                return program.plan.run(feeds)
            except Exception:
                pass  # once more, node by node, to find the failing one
        return run_calls(program.plan, feeds, effects=effects)

    def forms(self, program: PreparedRun, options: RunOptions) -> tuple[Form, ...]:
        """The forms in which an unobserved run may be executed."""
        if options.partition if options.partition is not None else program.several_devices:
            return ("partitions",)
        threads = options.parallel or (options.parallel is None and program.schedule.pays)
        at_once: Form = "at once" if program.plain else "in order"
        return (at_once, "threads") if threads else (at_once,)

    def rerun(
        self, program: PreparedRun, form: Form, feeds: list[Array], values: dict[int, Array]
    ) -> list[Array]:
        """Run a program again on separate variables; the session's variables do not change.

        Args:
            form: How it is executed.
            values: The values of the variables, by value id; the run updates them.
        """
        effects = self._effects(program, apart=values)
        if form == "partitions":
            return self._in_places(program, feeds, effects)
        if form == "threads":
            return program.schedule.run(feeds, effects)
        if form == "at once":
            return program.plan.run(feeds)
        return run_calls(program.plan, feeds, effects=effects)

    def _in_places(self, program: PreparedRun, feeds: list[Array], effects: Effects) -> list[Array]:
        """Run the program's partitions as threads."""
        parts, plans = program.parts
        metadata = program.metadata
        if not metadata.partitions:
            metadata = program.metadata = replace(
                metadata,
                executed=tuple(call.node.name for plan in plans for call in plan.calls),
                partitions=tuple(part.device for part in parts),
            )
        values = dict(program.plan.constants)
        measure = program.measured if metadata.peak_bytes is None else None
        fed = dict(zip(program.plan.fed, feeds, strict=True))
        if parts:
            values.update(run_partitions(parts, plans, fed, effects, measure))
        values.update(fed)
        return [values[value] for value in program.plan.outputs]

    def _first_values(self, program: PreparedRun) -> set[int]:
        """Variables without a value that the run only assigns to."""
        uninitialised = {read.value for read in program.reads if self._value(read) is None}
        if not uninitialised:
            return uninitialised
        for call in program.plan.calls:
            stateful = traits_of(call.node.op).state
            uninitialised.difference_update(call.node.inputs[1:] if stateful else call.node.inputs)
        return uninitialised.difference(program.plan.outputs)

    def _value(self, variable: Variable, apart: Mapping[int, Array] | None = None) -> Array | None:
        if apart is not None:
            return apart.get(variable.value)
        if variable.outside is not None:
            return variable.outside.data
        return self._values.get(variable.value)

    def _effects(
        self, program: PreparedRun, *, observed: bool = False,
        apart: dict[int, Array] | None = None,
    ) -> Effects:  # fmt: skip
        """The effects of reads and updates of variables in this run, on ``apart`` if given."""
        if not program.stateful:
            return Effects()
        graph = self.graph
        variables: dict[int, Tensor] = {}

        def variable_of(node: Node) -> Variable:
            value = node.inputs[0]
            return graph.variables[graph.state_of.get(value, value)]

        def before(call: Call, args: list[Any]) -> list[Any]:
            variable = variable_of(call.node)
            if traits_of(call.node.op).state == "replaces":
                return args
            array = self._value(variable, apart)
            if array is None:
                raise _uninitialised(graph, variable)
            if not observed:
                return [array, *args[1:]]
            known = variables.get(variable.value, args[0])
            if known is None or known.data is not array:
                known = make(array, name=variable.name)
            return [known, *args[1:]]

        def after(call: Call, outputs: tuple[Any, ...]) -> None:
            variable = variable_of(call.node)
            if observed:
                variables[variable.value] = outputs[0]
            array = outputs[0].data if observed else outputs[0]
            if apart is not None:
                apart[variable.value] = array
            elif variable.outside is not None:
                variable.outside.data = array
                if not observed:
                    variable.outside._vid = 0
            else:
                self._values[variable.value] = array

        # The lock is held from reading to writing, so that no other thread updates in between.
        return Effects(
            dict.fromkeys(with_state("reads", "replaces", "changes"), before),
            dict.fromkeys(with_state("replaces", "changes"), after),
            lambda call: self._lock,
        )


class _Key:
    """A key of feeds, compared by identity: tensors compare element by element."""

    def __init__(self, item: Any) -> None:
        self.item = item


def _uninitialised(graph: Graph, variable: Variable) -> UsageError:
    node = graph.producer(variable.value)
    made_at = f", made at {node.source}," if node.source else ""
    return UsageError(
        f"the variable {variable.name!r}{made_at} has no value in this session yet",
        source=where(),
        hint="run global_variables_initializer() first",
    )
