"""The decorator `compile`.

Invariant: what is wrong with its arguments is said when a function is decorated, not when called.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from nodescope.engine.source import where
from nodescope.engine.static.compiled import Compiled, Method, parameters_of
from nodescope.engine.static.dynamic import check_wanted
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
) -> Any:
    """A function that is traced once per signature and then runs as a static graph.

    Tensors, arrays and NumPy scalars in the arguments, in any nest of containers, are traced; all
    other values are part of the signature. Tensors that the function takes from around are read
    afresh on each call, and what it assigns to them, or to ``.grad``, is written back when a call
    has succeeded. Other things that it does to Python objects happen while it is traced, not on
    each call. Also a decorator, with or without arguments.

    Args:
        function: What to compile; a method has traces of its own for each instance.
        static_argnames: Arguments that are part of the signature as they are.
        donate: Arguments whose tensors are given away: their arrays are let go as soon as nothing
            in the graph needs them, and the tensors cannot be used afterwards, not even if the call
            fails.
        dynamic: Whether the leading dimension of arguments may differ from call to call without
            another trace: None for as soon as a second size comes, True, False, or names of the
            arguments that have it.
        name: What it is called in `explain`; the function's own name if None.
        backend: What runs the graph: ``"numpy"`` (as if None), which gives the plain function's
            results bit for bit; ``"c"``, which needs a C compiler and keeps its stated error
            bounds; ``"auto"``: C where there is a compiler; ``"plain"``: node by node. The
            environment variable NODESCOPE_BACKEND overrides it for every function.
        passes: Which passes the graph goes through, by name (`nodescope passes` lists them), in
            order; names with a minus before them are left out of the usual ones; ``"none"``.
        unsafe: Names of rules to use that may change NaN, infinities, signs of zeros, or rounding;
            ``"all"`` for every one.
        memory_bytes: Cheap results are computed again rather than that more is held at once.

    Raises:
        UsageError: An argument that is named does not exist; or a back end, a pass or a rule; or
            ``memory_bytes`` is no positive whole number.
    """
    if function is None:
        return functools.partial(
            compile, static_argnames=static_argnames, donate=donate, dynamic=dynamic, name=name,
            backend=backend, passes=passes, unsafe=unsafe, memory_bytes=memory_bytes,
        )  # fmt: skip
    if isinstance(function, Compiled | Method):
        return function
    if not callable(function):
        raise UsageError(
            f"compile: {type(function).__name__} is not a function", source=where(),
            hint="use it as @nodescope.compile, or pass the function",
        )  # fmt: skip
    static, given = _as_names(static_argnames), _as_names(donate)
    wanted = check_wanted(dynamic)
    wish = wish_of(backend, passes, unsafe, memory_bytes)
    known = parameters_of(function)
    named = wanted if isinstance(wanted, tuple) else ()
    if known and not _takes_any(function):
        for each in (*static, *given, *named):
            if each not in known:
                raise UsageError(
                    f"compile: {getattr(function, '__name__', 'the function')} has no argument "
                    f"{each!r}",
                    source=where(),
                    hint=f"it has {', '.join(known)}",
                )
    return Compiled(function, static, given, wanted, name, wish)


def _as_names(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _takes_any(function: Callable[..., Any]) -> bool:
    found = inspect.signature(function).parameters.values()
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in found)
