"""Submitting: observes submissions to Ray, in the program and in its workers.

Invariant: observation does not change a submission; one that cannot be described is left out.
"""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import ray

from nodescope.adapters.ray import compat
from nodescope.adapters.ray.describing import describe, references_in, text_of
from nodescope.adapters.ray.wire import Argument, Submitted
from nodescope.emit.frames import user_source

_SHOWN: Final = (
    "num_cpus", "num_gpus", "memory", "resources", "max_retries", "retry_exceptions",
    "max_restarts", "max_task_retries", "max_concurrency", "scheduling_strategy",
)  # fmt: skip


class Submissions:
    """Observes submissions in this process.

    Args:
        report: Takes each submission.
        place: Returns the running task and its attempt; ``("", 0)`` in the program itself.
        inline: Returns the largest size of an array described whole, in bytes; below 0, arrays are
            described without elements.
        ready: Called before each submission of a task, actor or method.
        graph: Returns the execution of a bind graph that submits; see `wire.Submitted`.
    """

    def __init__(
        self,
        report: Callable[[Submitted], None],
        place: Callable[[], tuple[str, int]],
        inline: Callable[[], int],
        ready: Callable[[], None] = lambda: None,
        graph: Callable[[], tuple[str, int] | None] = lambda: None,
    ) -> None:
        self._graph = graph
        self.report, self._place, self._inline, self._ready = report, place, inline, ready
        self.off = False

    @contextlib.contextmanager
    def seen(self) -> Iterator[None]:
        """Observe submissions until the context is left."""
        with (
            compat.submissions_seen(self._task, self._actor, self._method),
            compat.replaced("put", self._put),
        ):
            yield

    def _task(self, submit: Any, remote: Any, args: Any, kwargs: Any, options: Any) -> Any:
        if self.off:
            return submit()
        self._ready()
        now = time.perf_counter_ns()
        result = submit()
        with contextlib.suppress(Exception):
            refs = _refs(result)
            name, function = compat.function_of(remote)
            task = refs[0].task_id().hex() if refs else ""
            label = str(options.get("name") or "")
            self._tell("task", task, "", name, label, "", parameters(function), args, kwargs, refs,
                       compat.retries_of(remote, options, "task"), options, now)  # fmt: skip
        return result

    def _actor(self, submit: Any, remote: Any, args: Any, kwargs: Any, options: Any) -> Any:
        if self.off or compat.is_own_class(remote):
            return submit()
        self._ready()
        now = time.perf_counter_ns()
        handle = submit()
        with contextlib.suppress(Exception):
            name, init = compat.class_of(remote)
            identity = compat.actor_id(handle)
            label = str(options.get("name") or "")
            self._tell("actor", f"actor:{identity}", name, "__init__", label, identity,
                       parameters(init)[1:], args, kwargs, [],
                       compat.retries_of(remote, options, "actor"), options, now)  # fmt: skip
        return handle

    def _method(self, submit: Any, method: Any, args: Any, kwargs: Any, options: Any) -> Any:
        if self.off or compat.is_internal_method(method._method_name):
            return submit()
        if compat.is_own_method(method):
            return submit()
        self._ready()
        now = time.perf_counter_ns()
        result = submit()
        with contextlib.suppress(Exception):
            refs = _refs(result)
            owner, name, identity, names = compat.method_of(method)
            task = refs[0].task_id().hex() if refs else ""
            self._tell("method", task, owner, name, str(options.get("name") or ""), identity, names,
                       args, kwargs, refs, compat.retries_of(method, options, "method"), options,
                       now)  # fmt: skip
        return result

    def _put(self, original: Any) -> Any:
        def put(value: Any, *args: Any, **kwargs: Any) -> Any:
            now = time.perf_counter_ns()
            ref = original(value, *args, **kwargs)
            if not self.off:
                with contextlib.suppress(Exception):
                    self._tell("put", "", "", "put", "", "", ["value"], (value,), {}, [ref],
                               (0, False), {}, now)  # fmt: skip
            return ref

        return put

    def _tell(
        self, kind: str, task: str, owner: str, name: str, label: str, actor: str,
        names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any], refs: list[Any],
        retries: tuple[int, bool], options: dict[str, Any], now: int,
    ) -> None:  # fmt: skip
        source = user_source()
        inline = self._inline()
        arguments = [
            _argument(str(at), names[at] if at < len(names) else str(at), value, inline)
            for at, value in enumerate(args)
        ] + [_argument(key, key, value, inline) for key, value in kwargs.items()]
        shown = {
            key: text_of(options[key])
            for key in _SHOWN
            if options.get(key) not in (None, {}, "DEFAULT", False)
        }
        parent, attempt = self._place()
        self.report(
            Submitted(
                kind, task, parent, attempt, owner, name, label, actor, tuple(arguments),
                tuple(ref.binary() for ref in refs), *retries, shown,
                None if source is None else (source.file, source.line, source.function), now,
                self._graph(),
            )
        )  # fmt: skip


def _refs(result: Any) -> list[Any]:
    if isinstance(result, ray.ObjectRef):
        return [result]
    if isinstance(result, list):
        return [ref for ref in result if isinstance(ref, ray.ObjectRef)]
    generator = getattr(result, "_generator_ref", None)
    return [generator] if isinstance(generator, ray.ObjectRef) else []


def _argument(slot: str, name: str, value: Any, inline: int) -> Argument:
    if isinstance(value, ray.ObjectRef):
        return Argument(slot, name, (value.binary(),), True)
    refs = tuple(dict.fromkeys(ref.binary() for ref in references_in(value, ray.ObjectRef)))
    if refs:
        return Argument(slot, name, refs, text=f"{type(value).__name__} of {len(refs)} objects")
    content = describe(value, inline, arrays=inline >= 0)
    if content.dtype:
        return Argument(slot, name, content=content)
    return Argument(slot, name, text=content.text or text_of(value))


@lru_cache(maxsize=1024)
def parameters(function: Any) -> list[str]:
    """The names of a function's parameters."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []
