"""Surroundings of the operations: data loaders, threads, functions of several operations.

Invariant: each call of a wrapped function calls the original once, with the program's arguments;
the originals are put back at the end.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils.data import DataLoader

from nodescope.adapters.torch.compat import data_loader_iterator
from nodescope.adapters.torch.places import Quiet
from nodescope.emit.emitter import Emitter
from nodescope.emit.frames import user_source
from nodescope.emit.state import current
from nodescope.origins import is_ours

if TYPE_CHECKING:
    from nodescope.adapters.torch.loading.in_program import InProgram
    from nodescope.adapters.torch.loading.workers import Workers
    from nodescope.adapters.torch.operations import Operations

FUNCTIONS: Final = (
    "scaled_dot_product_attention", "cross_entropy", "multi_head_attention_forward", "normalize",
    "cosine_similarity", "cosine_embedding_loss", "triplet_margin_loss", "gumbel_softmax",
    "interpolate", "grid_sample", "kl_div", "ctc_loss", "gaussian_nll_loss", "rms_norm",
    "instance_norm", "local_response_norm", "l1_loss", "hinge_embedding_loss", "poisson_nll_loss",
    "margin_ranking_loss", "multilabel_soft_margin_loss", "triplet_margin_with_distance_loss",
    "dropout", "alpha_dropout", "feature_alpha_dropout", "lp_pool2d", "einsum",
)  # fmt: skip
"""Functions of ``torch.nn.functional`` and ``torch`` that consist of several operations: each call
is a scope.
"""
_HOMES: Final = (torch.nn.functional, torch, torch.functional)


def is_enough(module: str) -> bool:
    """Whether a module's scope already shows which function it calls, so that the function needs no
    scope of its own: true for PyTorch's layers and losses.

    Args:
        module: The module's class, with its package.
    """
    package, _, name = module.rpartition(".")
    return package.startswith("torch.nn.modules") and not name.startswith(
        ("Transformer", "MultiheadAttention", "Sequential", "Module")
    )


@contextlib.contextmanager
def data_loading(
    emitter: Emitter, operations: Operations, workers: Workers | None, program: InProgram | None
) -> Iterator[None]:
    """Emit waits for batches, and keep the operations of data loaders out of the program's steps.

    Args:
        emitter, operations: The run's emitter and operations.
        workers: Observes the workers that loaders start, or None.
        program: Observes the operations of loaders without workers, or None.
    """
    original, original_iter = data_loader_iterator.__next__, DataLoader.__iter__

    def quiet() -> Quiet:  # also where a data set iterates over a data loader itself
        return Quiet((operations.place.data or operations).place)

    @functools.wraps(original_iter)
    def begin(self: Any) -> Any:
        start = contextlib.nullcontext() if workers is None else workers.start(self, user_source())
        with quiet(), start:  # the iterator draws a random seed for its workers
            iterator = original_iter(self)
        if program is not None:
            with contextlib.suppress(Exception):
                program.began(self, iterator)
        return iterator

    @functools.wraps(original)
    def fetch(self: Any) -> Any:
        start_ns = time.perf_counter_ns()
        seen = contextlib.nullcontext() if program is None else program.fetching(self)
        with quiet(), seen:
            batch = original(self)
        try:
            emitter.fetched(start_ns)
        except Exception:  # the program still gets its batch
            pass
        return batch

    data_loader_iterator.__next__, DataLoader.__iter__ = fetch, begin
    try:
        yield
    finally:
        data_loader_iterator.__next__, DataLoader.__iter__ = original, original_iter


@contextlib.contextmanager
def thread_starts(enter: Callable[[], None], leave: Callable[[], None]) -> Iterator[None]:
    """Also observe the threads that the program starts."""
    original = threading.Thread.start

    @functools.wraps(original)
    def start(self: threading.Thread) -> None:
        if not is_ours(sys._getframe(1).f_code.co_filename):
            run = self.run

            def observed() -> None:
                enter()
                try:
                    run()
                finally:
                    leave()
                    self.__dict__.pop("run", None)

            self.run = observed  # type: ignore[method-assign]
        original(self)

    threading.Thread.start = start  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.start = original  # type: ignore[method-assign]


@contextlib.contextmanager
def function_scopes(emitter: Emitter, operations: Operations) -> Iterator[None]:
    """Make each call of a function in `FUNCTIONS` a scope."""
    originals = [
        (home, name, getattr(home, name))
        for name in FUNCTIONS
        for home in _HOMES
        # In ``torch``, only functions written in Python: the others are operators.
        if isinstance(
            getattr(home, name, None),
            Callable if home is torch.nn.functional else FunctionType,  # type: ignore[arg-type]
        )
    ]
    counts: dict[tuple[str, str], int] = {}
    token: list[object] = [None]

    def call(scope: str, name: str) -> int:
        now = emitter.token(current())
        if now is not token[0]:
            token[0] = now
            counts.clear()
        number = counts.get((scope, name), 0)
        counts[scope, name] = number + 1
        return number

    def scoped(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original, assigned=("__name__", "__qualname__", "__doc__", "__module__"))
        def run(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or operations.off or operations.place.quiet:
                return original(*args, **kwargs)
            modules = operations.place.modules
            if modules and is_enough(_class_of(type(modules[-1][0]))):  # type: ignore[arg-type]
                return original(*args, **kwargs)
            with emitter.scope(name, call(current().scope, name)):
                return original(*args, **kwargs)

        return run

    wrapped = {original: scoped(name, original) for _, name, original in originals}
    for home, name, original in originals:
        setattr(home, name, wrapped[original])
    try:
        yield
    finally:
        for home, name, original in originals:
            setattr(home, name, original)


@functools.cache
def _class_of(kind: type) -> str:
    """The name of a class, with its package."""
    return f"{kind.__module__}.{kind.__name__}"
