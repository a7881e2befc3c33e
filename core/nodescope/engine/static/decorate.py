"""The decorator `compile`.

Invariant: wrong arguments raise when a function is decorated, not when it is called.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from nodescope.engine.execution.elsewhere import Executor, executor_of
from nodescope.engine.source import where
from nodescope.engine.static.compiled import CompiledFunction, Method, parameters_of
from nodescope.engine.static.dynamic import check_setting
from nodescope.engine.static.lowering import wish_of
from nodescope.errors import UsageError


def compile(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static_argnames: str | Iterable[str] = (),
    donate: str | Iterable[str] = (),
    dynamic: bool | str | Iterable[str] | None = None,
    name: str | None = None,
    backend: str | None = None,
    passes: str | Iterable[str] | None = None,
    unsafe: str | Iterable[str] = (),
    memory_bytes: int | None = None,
    executor: str | Executor | None = None,
    partitions: int | None = None,
) -> Any:
    """A function that is traced once per signature and then runs as a static graph.

    Tensors, arrays and NumPy scalars in the arguments, in any nested containers, are traced; all
    other values are part of the signature. Captured tensors are read again on each call, and
    assignments to them, or to ``.grad``, are written back when the call succeeds. Other side
    effects on Python objects happen only while tracing. Also a decorator, with or without
    arguments.

    Args:
        function: The function to compile; a method has separate traces for each instance.
        static_argnames: Names of arguments that are part of the signature by value.
        donate: Names of arguments whose tensors are given away: their arrays are released as soon
            as the graph no longer needs them, and the tensors cannot be used afterwards, even if
            the call fails.
        dynamic: Whether the leading dimension of arguments may change between calls without
            another trace: None for as soon as a second size appears, True, False, or the names of
            the arguments whose leading dimension is dynamic.
        name: The name in `explain`; the function's own name if None.
        backend: What runs the graph: ``"numpy"`` (the default), whose results are bit-identical to
            the plain function's; ``"c"``, which needs a C compiler and keeps its stated error
            bounds; ``"auto"``: C if there is a compiler; ``"plain"``: node by node. The environment
            variable NODESCOPE_BACKEND overrides it for every function.
        passes: Names of the passes to run (`nodescope passes` lists them), in order; names with a
            leading minus are removed from the default passes; ``"none"`` for none.
        unsafe: Names of rules to use that may change NaN, infinities, signs of zeros, or rounding;
            ``"all"`` for every one.
        memory_bytes: A memory target: cheap values are recomputed where holding them would exceed
            it.
        executor: Where the graph runs: None for this process, ``"ray"`` for actors on Ray, or a
            `nodescope.RayExecutor` with settings. Nodes run where `nodescope.device` says
            (``worker:1``), or else in partitions that the cost model makes.
        partitions: Number of partitions; 2 if None.

    Raises:
        UsageError: A named argument, back end, pass, rule or executor does not exist, or
            ``memory_bytes`` is not a positive integer.
    """
    if function is None:
        return functools.partial(
            compile, static_argnames=static_argnames, donate=donate, dynamic=dynamic, name=name,
            backend=backend, passes=passes, unsafe=unsafe, memory_bytes=memory_bytes,
            executor=executor, partitions=partitions,
        )  # fmt: skip
    if isinstance(function, CompiledFunction | Method):
        return function
    if not callable(function):
        raise UsageError(
            f"compile: {type(function).__name__} is not a function", source=where(),
            hint="use it as @nodescope.compile, or pass the function",
        )  # fmt: skip
    static, donated = _as_names(static_argnames), _as_names(donate)
    dynamic_sizes = check_setting(dynamic)
    runs_in = executor_of(executor, partitions)
    wish = wish_of(backend, passes, unsafe, memory_bytes, runs_in)
    known = parameters_of(function)
    named = dynamic_sizes if isinstance(dynamic_sizes, tuple) else ()
    if known and not _takes_any(function):
        for argument_name in (*static, *donated, *named):
            if argument_name not in known:
                raise UsageError(
                    f"compile: {getattr(function, '__name__', 'the function')} has no argument "
                    f"{argument_name!r}",
                    source=where(),
                    hint=f"it has {', '.join(known)}",
                )
    return CompiledFunction(function, static, donated, dynamic_sizes, name, wish)


def _as_names(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _takes_any(function: Callable[..., Any]) -> bool:
    signature_parameters = inspect.signature(function).parameters.values()
    return any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in signature_parameters
    )
