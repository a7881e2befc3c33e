"""Private names of Ray: no other module uses undocumented parts of Ray."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import os
import types
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any, NamedTuple

import ray
from ray._private import function_manager as _functions
from ray._private import worker as _worker
from ray.actor import ActorClass, ActorMethod
from ray.remote_function import RemoteFunction

from nodescope.errors import error_text

Call = Callable[..., Any]
Around = Callable[[Call, Any, tuple[Any, ...], dict[str, Any], dict[str, Any]], Any]
"""Called in place of a submission, with a function that makes it, the remote function, class or
method, its arguments, its keywords, and the options of the call."""

_INTERNAL = "__ray"
_RETRIES = "RAY_TASK_MAX_RETRIES"
_UNSEEN = ("nodescope.", "ray.dag.")  # modules whose actors are not the program's
_MARK = "_nodescope"
_NO_LIMIT = -1


@contextlib.contextmanager
def submissions_seen(task: Around, actor: Around, method: Around) -> Iterator[None]:
    """Call the given functions in place of submissions until the context is left."""
    with contextlib.ExitStack() as stack:
        for owner, around in ((RemoteFunction, task), (ActorClass, actor), (ActorMethod, method)):
            stack.enter_context(_replaced(owner, "_remote", _around(owner._remote, around)))
        yield


def _around(original: Call, around: Around) -> Call:
    def _remote(
        self: Any, args: Any = None, kwargs: Any = None, *further: Any, **options: Any
    ) -> Any:
        def submit() -> Any:
            return original(self, args, kwargs, *further, **options)

        return around(submit, self, tuple(args or ()), dict(kwargs or {}), options)

    return _remote


@contextlib.contextmanager
def _replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    before = owner.__dict__[name]
    setattr(owner, name, new)
    try:
        yield
    finally:
        if owner.__dict__.get(name) is new:
            setattr(owner, name, before)


@contextlib.contextmanager
def replaced(name: str, new: Callable[[Call], Call]) -> Iterator[None]:
    """Replace a function of the module ``ray`` with what ``new`` returns for it."""
    with _replaced(ray, name, new(getattr(ray, name))):
        yield


def function_of(remote: Any) -> tuple[str, Any]:
    """The name of a remote function, and the function."""
    return str(remote._function.__name__), remote._function


def class_of(actor_class: Any) -> tuple[str, Any]:
    """The name of an actor class, and its ``__init__``."""
    metadata = actor_class.__ray_metadata__
    return str(metadata.class_name).rpartition(".")[2], metadata.modified_class.__init__


def method_of(method: Any) -> tuple[str, str, str, list[str]]:
    """The class, name, actor id and parameters of an actor's method."""
    handle = method._actor
    descriptor = handle._ray_actor_creation_function_descriptor
    parameters = [parameter.name for parameter in method._signature or ()]
    return (
        str(descriptor.class_name).rpartition(".")[2], str(method._method_name),
        handle._actor_id.hex(), parameters,
    )  # fmt: skip


def actor_id(handle: Any) -> str:
    """The id of an actor, by its handle."""
    return str(handle._actor_id.hex())


def is_own_class(actor_class: Any) -> bool:
    """Whether an actor's class is nodescope's own, or Ray's own for compiled graphs."""
    return str(actor_class.__ray_metadata__.modified_class.__module__).startswith(_UNSEEN)


def is_own_method(method: Any) -> bool:
    """Whether a method's actor is nodescope's own, or Ray's own for compiled graphs."""
    descriptor = method._actor._ray_actor_creation_function_descriptor
    return str(descriptor.module_name).startswith(_UNSEEN)


def is_internal_method(name: str) -> bool:
    """Whether a method of actors is Ray's own."""
    return name.startswith(_INTERNAL)


def retries_of(remote: Any, options: dict[str, Any], kind: str) -> tuple[int, bool]:
    """How often a submission may be retried (-1: always), and whether after exceptions as well."""
    if kind == "task":
        retries = options.get("max_retries")
        return (
            int(os.environ.get(_RETRIES, 3)) if retries is None else int(retries),
            bool(options.get("retry_exceptions")),
        )
    if kind == "method":
        retries = options.get("max_task_retries", remote._max_task_retries)
        exceptions = options.get("retry_exceptions", remote._retry_exceptions)
        return int(retries or 0), bool(exceptions)
    return int(options.get("max_restarts") or 0), False


@contextlib.contextmanager
def executions_seen(wrap: Callable[[Call, str, str], Call]) -> Iterator[None]:
    """Call ``wrap`` with each function that this worker is about to run, its name, and the class of
    its actor or ``""``. The function that it returns runs instead.
    """
    manager = _functions.FunctionActorManager
    original = manager.get_execution_info
    known: dict[Any, Any] = {}

    def get_execution_info(self: Any, job_id: Any, descriptor: Any) -> Any:
        info = original(self, job_id, descriptor)
        key = descriptor.function_id
        before = known.get(key)
        if before is None or before[0] is not info:
            name, owner = str(descriptor.function_name), str(descriptor.class_name)
            if is_internal_method(name) or is_internal_method(str(info.function_name)):
                return info
            if str(descriptor.module_name).startswith(_UNSEEN):
                return info
            wrapped = wrap(info.function, name.rpartition(".")[2], owner.rpartition(".")[2])
            before = known[key] = (info, info._replace(function=wrapped))
        return before[1]

    with _replaced(manager, "get_execution_info", get_execution_info):
        yield


@contextlib.contextmanager
def transfers_seen(report: Callable[[int, int], None]) -> Iterator[None]:
    """Call ``report`` with the start and end of each deserialization of arguments."""
    original = _worker.Worker.deserialize_objects

    def deserialize_objects(self: Any, *args: Any, **kwargs: Any) -> Any:
        start = perf_counter_ns()
        try:
            return original(self, *args, **kwargs)
        finally:
            report(start, perf_counter_ns())

    with _replaced(_worker.Worker, "deserialize_objects", deserialize_objects):
        yield


def is_method_async(function: Any) -> bool:
    """Whether an actor's method is a coroutine function, by what the worker runs for it."""
    return inspect.iscoroutinefunction(getattr(function, "method", function))


def is_generator(function: Any) -> bool:
    """Whether a function yields its results."""
    inner = getattr(function, "method", function)
    return inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)


def is_async_generator(function: Any) -> bool:
    """Whether a function yields its results in an event loop."""
    return inspect.isasyncgenfunction(getattr(function, "method", function))


def task_of(ref: bytes) -> str:
    """The id of the task that makes an object, by the object's id."""
    return ref[: ray.TaskID.size()].hex()


def attempt() -> int:
    """The number of earlier attempts of the task that runs here."""
    return int(_worker.global_worker.core_worker.get_current_task_attempt_number())


def mark_paused(task: str, paused: bool) -> None:
    """Tell Ray's own tools that a debugger has paused the task."""
    with contextlib.suppress(Exception):
        _worker.global_worker.core_worker.update_task_is_debugger_paused(
            ray.TaskID.from_hex(task), paused
        )


def give_processor_back(task: str, seconds: float) -> None:
    """Wait while the processors of the task that runs here are free for other tasks.

    Ray frees them while a task waits for an object, so the task waits for its own result.
    """
    own = ray.ObjectRef(bytes.fromhex(task) + (1).to_bytes(4, "little"))
    ray.wait([own], timeout=seconds)


def failures(results: list[bytes]) -> dict[bytes, str]:
    """Why the tasks of the available results failed, by result; ``""`` if they did not."""
    refs = [ray.ObjectRef(result) for result in results]
    ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
    errors: dict[bytes, str] = {}
    for ref in ready:
        try:
            ray.get(ref, timeout=1)
            errors[ref.binary()] = ""
        except ray.exceptions.GetTimeoutError:
            errors[ref.binary()] = ""
        except Exception as error:
            cause = getattr(error, "cause", None)
            root = cause if isinstance(cause, Exception) else error
            errors[ref.binary()] = error_text(root).splitlines()[0]
    return errors


class Bound(NamedTuple):
    """A node of a bind graph.

    Attributes:
        id: The node's id.
        kind: ``task``, ``actor``, ``method`` or ``input``; ``part`` for one of several results.
        owner, name: As in `wire.Submitted`.
        actor: The id of its actor's node, or of an actor that exists already.
        names: The function's parameters.
        args, kwargs: The arguments it is bound with.
        results: The number of its results.
        port: Which of the results a ``part`` is.
    """

    id: str
    kind: str
    owner: str = ""
    name: str = ""
    actor: str = ""
    names: tuple[str, ...] = ()
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    results: int = 1
    port: int = 0


def bound_nodes(root: Any) -> list[Bound]:
    """The nodes of a bind graph, in the order in which they are submitted."""
    from ray.dag import ClassMethodNode, FunctionNode
    from ray.dag.class_node import ClassNode

    nodes: dict[str, Bound] = {}

    def parameters(function: Any) -> tuple[str, ...]:
        return tuple(inspect.signature(function).parameters)

    def add(node: Any) -> str:
        key = str(node._stable_uuid)
        if key in nodes:
            return key
        for child in node._get_all_child_nodes():
            add(child)
        args, kwargs = tuple(node.get_args()), tuple(node.get_kwargs().items())
        results = node.get_options().get("num_returns") or 1
        results = results if isinstance(results, int) else 1
        if isinstance(node, FunctionNode):
            body = node._body
            nodes[key] = Bound(key, "task", "", body.__name__, "", parameters(body), args, kwargs,
                               results)  # fmt: skip
        elif isinstance(node, ClassNode):
            names = parameters(node._body.__init__)[1:]
            nodes[key] = Bound(key, "actor", node._body.__name__, "__init__", key, names, args,
                               kwargs)  # fmt: skip
        elif isinstance(node, ClassMethodNode):
            if node.is_class_method_output:
                port = node._class_method_output
                nodes[key] = Bound(str(port.class_method_call._stable_uuid), "part",
                                   port=port.output_idx)  # fmt: skip
                return key
            parent = node._parent_class_node
            if isinstance(parent, ClassNode):
                owner, actor = parent._body.__name__, str(parent._stable_uuid)
                names = parameters(getattr(parent._body, node._method_name))[1:]
            else:
                method = getattr(parent, node._method_name)
                owner, _, actor, known = method_of(method)
                names = tuple(known)
            nodes[key] = Bound(key, "method", owner, node._method_name, actor, names, args, kwargs,
                               results)  # fmt: skip
        elif type(node).__name__.startswith("Input"):
            nodes[key] = Bound(key, "input")
        return key

    add(root)
    return list(nodes.values())


def graph_id(value: Any) -> str:
    """The id of a node of a bind graph."""
    return str(value._stable_uuid)


def result_of(node: Any) -> tuple[int, str]:
    """The port and the node whose result a node of a bind graph stands for."""
    from ray.dag import ClassMethodNode

    # An input node accepts any attribute name, so the class is checked first.
    output = node._class_method_output if isinstance(node, ClassMethodNode) else None
    if output is not None:
        return int(output.output_idx), str(output.class_method_call._stable_uuid)
    return 0, str(node._stable_uuid)


def node_class() -> type:
    """The class of all nodes of bind graphs."""
    from ray.dag import DAGNode

    kind: type = DAGNode
    return kind


@contextlib.contextmanager
def graphs_seen(
    executed: Callable[[Any], contextlib.AbstractContextManager[None]],
    compiled: Callable[[Any, str], None],
    channelled: Callable[[str, tuple[Any, ...], dict[str, Any]], None],
    held: Callable[[], bool],
    may_be_held: Callable[[], bool],
) -> Iterator[None]:
    """Observe bind graphs until the context is left.

    Args:
        executed: Entered around each execution of a bind graph that is not compiled.
        compiled: Called with each compiled graph and the number of its compilation.
        channelled: Called before each execution of a compiled graph with that number, the
            arguments and the keywords.
        held: Whether a task is stopped, or was a moment ago; then waiting for a result of a
            compiled graph does not time out.
        may_be_held: Whether a task may be stopped; then passing a compiled graph its arguments does
            not time out.
    """
    from ray.dag.compiled_dag_node import CompiledDAG, ExecutableTask

    node = node_class()
    execute, compile_graph = node.execute, node.experimental_compile  # type: ignore[attr-defined]
    build, until = ExecutableTask.__init__, CompiledDAG._execute_until
    count = itertools.count(1)
    compiling: list[str] = []

    @functools.wraps(execute)
    def seen_execute(self: Any, *args: Any, **kwargs: Any) -> Any:
        with executed(self):
            return execute(self, *args, **kwargs)

    @functools.wraps(compile_graph)
    def seen_compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        number = str(next(count))
        compiling.append(number)
        try:
            result = compile_graph(self, *args, **kwargs)
        finally:
            compiling.pop()
        setattr(result, _MARK, number)
        compiled(self, number)
        return result

    @functools.wraps(build)
    def seen_build(self: Any, task: Any, *args: Any, **kwargs: Any) -> None:
        build(self, task, *args, **kwargs)
        if compiling:
            setattr(self, _MARK, f"{compiling[-1]} {task.dag_node._stable_uuid}")

    def seen_run(original: Call) -> Call:
        @functools.wraps(original)
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            number, timeout = getattr(self, _MARK, ""), self._submit_timeout
            if not number:
                return original(self, *args, **kwargs)
            channelled(number, args, kwargs)
            if may_be_held():
                self._submit_timeout = _NO_LIMIT
            try:
                return original(self, *args, **kwargs)
            finally:
                self._submit_timeout = timeout

        return run

    @functools.wraps(until)
    def seen_until(self: Any, *args: Any, **kwargs: Any) -> Any:
        while True:
            try:
                return until(self, *args, **kwargs)
            except ray.exceptions.RayChannelTimeoutError:
                if not held():
                    raise

    with (
        _replaced(node, "execute", seen_execute),
        _replaced(node, "experimental_compile", seen_compile),
        _replaced(ExecutableTask, "__init__", seen_build),
        _replaced(CompiledDAG, "execute", seen_run(CompiledDAG.execute)),
        _replaced(CompiledDAG, "execute_async", seen_run(CompiledDAG.execute_async)),
        _replaced(CompiledDAG, "_execute_until", seen_until),
    ):
        yield


@contextlib.contextmanager
def channelled_seen(wrap: Callable[[Call, str, str, str], Call]) -> Iterator[None]:
    """Call ``wrap`` for each execution of a method within a compiled graph, with the method, its
    name, its class, and the execution's id; see `channelled_id`. What it returns runs instead.
    """
    from ray.dag.compiled_dag_node import ExecutableTask

    compute = ExecutableTask._compute

    @functools.wraps(compute)
    def seen_compute(self: Any, overlap: bool, instance: Any) -> Any:
        mark = getattr(self, _MARK, "")
        if not mark or self.collective_op is not None:
            return compute(self, overlap, instance)
        count = self._nodescope_count = getattr(self, "_nodescope_count", 0) + 1
        method, owner = getattr(instance, self.method_name), type(instance).__name__
        wrapped = wrap(method, self.method_name, owner, f"compiled {mark} {count}")
        return compute(self, overlap, types.SimpleNamespace(**{self.method_name: wrapped}))

    with _replaced(ExecutableTask, "_compute", seen_compute):
        yield


def channelled_id(number: str, node: str, execution: int) -> str:
    """The task id of an execution of a node in a compiled graph."""
    return f"compiled {number} {node} {execution}"


def input_of(node: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The value of a graph's input node in an execution with these arguments.

    Raises:
        LookupError: The value is not known.
    """
    from ray.dag import InputAttributeNode, InputNode

    if isinstance(node, InputNode) and len(args) == 1 and not kwargs:
        return args[0]
    if not isinstance(node, InputAttributeNode):
        raise LookupError(node)
    key = node._key
    return args[key] if isinstance(key, int) else kwargs[key]
