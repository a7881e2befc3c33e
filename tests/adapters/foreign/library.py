"""Distant: arrays that live in another process, computed there while the program continues.

It does not know nodescope. Each call returns at once; only `fetch` fetches elements. The library
can be observed through hooks: the list ``HOOKS``.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np


def _serve(commands: Any, replies: Any) -> None:
    """Run in the other process: execute commands in order, until the connection ends.

    A failure is raised when its result, or a value computed from it, is fetched.
    """
    _close_all_but(commands.fileno(), replies.fileno())
    np.seterr(all="ignore")
    held: dict[int, Any] = {}

    def taken(handle: int) -> Any:
        if isinstance(held[handle], Exception):
            raise held[handle]
        return held[handle]

    while True:
        try:
            number, what, arguments = commands.recv()
        except EOFError:
            return
        if what == "end":
            return
        answer: Any = None
        try:
            if what == "put":
                held[arguments[0]] = arguments[1]
            elif what == "free":
                held.pop(arguments[0], None)
            elif what == "copy":
                held[arguments[1]] = np.array(taken(arguments[0]))
            elif what == "write":
                taken(arguments[0])[...] = arguments[1]
            elif what == "describe":
                answer = _described(np.asarray(taken(arguments[0])))
            elif what == "fetch":
                array = taken(arguments[0])
                answer = np.array(array if arguments[1] is None else array[arguments[1]], order="C")
            else:
                handle, operands, extra = arguments
                held[handle] = np.asarray(_OPS[what](*map(taken, operands), **extra))
        except Exception as error:
            answer = error
            if what == "copy":
                held[arguments[1]] = error
            elif what in _OPS:
                held[arguments[0]] = error
        if number:
            replies.send((number, answer))


def _close_all_but(*kept: int) -> None:
    """Close inherited descriptors, so readers of the program's pipes need not wait for this."""
    numbers = [2, *sorted(kept), os.sysconf("SC_OPEN_MAX")]
    for before, after in itertools.pairwise(numbers):
        os.closerange(before + 1, after)


def _described(array: Any) -> dict[str, Any]:
    """The statistics of an array; those of its distribution are over finite elements."""
    finite = array[np.isfinite(array)]
    numbers: dict[str, Any] = {
        "nan_count": int(np.isnan(array).sum()),
        "inf_count": int(np.isinf(array).sum()),
        "zero_count": int((array == 0).sum()),
        "preview": tuple(map(float, array.reshape(-1)[:8])),
    }
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        numbers |= {"min": low, "max": high, "mean": float(finite.mean()),
                    "std": float(finite.std()), "norm": float(np.linalg.norm(finite))}  # fmt: skip
        counts = np.histogram(finite, 32, (low, high if high > low else low + 1))[0]
        numbers["histogram"] = tuple(map(int, counts))
    return numbers


def _nudge(x: Any, by: float) -> Any:
    x += by
    return x


_OPS: dict[str, Callable[..., Any]] = {
    "frobnicate": lambda x, y: x @ y,
    "warp": lambda x: np.tanh(x),
    "quash": lambda x: np.mean(x),
    "balloon": lambda x: np.exp(x),
    "nudge_": _nudge,
    "pile": lambda x, y: np.concatenate([x, y]),
    "peek": lambda x, row: x[row],
    "sieve": lambda x: x[x > 0],
    "shatter": lambda x: 1 // 0,
    "one_like": lambda x: np.ones_like(x),
    "quash_back": lambda g, x: np.broadcast_to(g / x.size, x.shape).copy(),
    "warp_back": lambda g, out: g * (1 - out * out),
    "frobnicate_back": lambda g, x: x.T @ g,
}

Hook = Callable[["str", tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]
HOOKS: list[Hook] = []
"""Called with name, inputs, arguments and a function that runs the call."""
STEP_HOOKS: list[Callable[[], None]] = []
"""Called when the optimizer has made a step."""
BACKWARD_HOOKS: list[Callable[[Distant], contextlib.AbstractContextManager[None]]] = []
"""Called with the result whose operation is differentiated within the context."""
LOSS_HOOKS: list[Callable[[Distant], None]] = []
"""Called with the number that a backward pass begins with."""
GRADIENT_HOOKS: list[Callable[[Distant, Distant], None]] = []
"""Called with an array and its gradient."""

_handles = itertools.count(1)
_numbers = itertools.count(1)


class Process:
    """The other process."""

    fetched_bytes = 0
    described = 0

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        commands, worker_commands = context.Pipe()
        answers, send = context.Pipe(duplex=False)
        self._commands, self._lock = commands, threading.RLock()
        self._waiting: dict[int, Future[Any]] = {}
        self._process = context.Process(target=_serve, args=(worker_commands, send), daemon=True)
        self._process.start()
        threading.Thread(target=self._listen, args=(answers,), daemon=True).start()

    def tell(self, what: str, *arguments: Any) -> None:
        """Send a command without waiting for it."""
        with self._lock:
            self._commands.send((0, what, arguments))

    def ask(self, what: str, *arguments: Any) -> Future[Any]:
        """Send a command, and wait for its result."""
        number, future = next(_numbers), Future[Any]()
        self._waiting[number] = future
        with self._lock:
            self._commands.send((number, what, arguments))
        return future

    def _listen(self, answers: Any) -> None:
        while True:
            try:
                number, answer = answers.recv()
            except (EOFError, OSError):
                return
            future = self._waiting.pop(number)
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                Process.fetched_bytes += getattr(answer, "nbytes", 0)
                Process.described += isinstance(answer, dict)
                future.set_result(answer)


_process: Process | None = None


def process() -> Process:
    """The other process, started when it is first needed."""
    global _process
    if _process is None:
        _process = Process()
    return _process


class Distant:
    """An array in the other process.

    Attributes:
        shape: Its sizes; None where only the other process knows.
        base: The array that it is a view of, or None.
        made: The operation that made it, and its inputs; None if it was sent.
        weight: Whether it is trained.
    """

    def __init__(self, handle: int, shape: tuple[int | None, ...], dtype: str, base: Any = None):
        self.handle, self.shape, self.dtype, self.base = handle, shape, dtype, base
        self.made: tuple[str, tuple[Distant, ...]] | None = None
        self.weight = False

    def fetch(self, window: Any = None) -> np.ndarray[Any, Any]:
        """Fetch its elements; waits."""
        array: np.ndarray[Any, Any] = process().ask("fetch", self.handle, window).result(30)
        return array


class Token:
    """A result that is no array."""


def distant(array: Any) -> Distant:
    """Send an array to the other process."""
    array = np.array(array, np.float64)
    sent = Distant(next(_handles), array.shape, "float64")
    process().tell("put", sent.handle, array)
    return sent


def trained(array: Any) -> Distant:
    """Send a trained array to the other process."""
    weight = distant(array)
    weight.weight = True
    return weight


def _call(name: str, inputs: tuple[Any, ...], attrs: dict[str, Any], run: Any) -> Any:
    for hook in HOOKS:
        return hook(name, inputs, attrs, run)
    return run()


def _op(name: str, inputs: tuple[Distant, ...], shape: Any, base: Any = None, **attrs: Any) -> Any:
    def run() -> Distant:
        result = Distant(next(_handles), shape, "float64", base)
        result.made = (name, inputs)
        process().tell(name, result.handle, [array.handle for array in inputs], attrs)
        return result

    return _call(name, inputs, attrs, run)


def again(name: str, inputs: list[Distant], attrs: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Run an operation without hooks, and fetch its elements; waits."""
    result = Distant(next(_handles), (None,), "float64")
    process().tell(name, result.handle, [array.handle for array in inputs], attrs)
    return result.fetch()


def frobnicate(x: Distant, y: Distant) -> Distant:
    """A product."""
    return _op("frobnicate", (x, y), (x.shape[0], y.shape[1]))  # type: ignore[no-any-return]


def warp(x: Distant) -> Distant:
    """An elementwise bend."""
    return _op("warp", (x,), x.shape)  # type: ignore[no-any-return]


def balloon(x: Distant) -> Distant:
    """The array with one more row."""
    return _op("balloon", (x,), x.shape)  # type: ignore[no-any-return]


def quash(x: Distant) -> Distant:
    """A scalar."""
    return _op("quash", (x,), ())  # type: ignore[no-any-return]


def nudge_(x: Distant, by: float) -> Distant:
    """Add in place; the result is the same memory."""
    return _op("nudge_", (x,), x.shape, x, by=by)  # type: ignore[no-any-return]


def pile(x: Distant, y: Distant) -> Distant:
    """One array on top of the other."""
    return _op("pile", (x, y), (x.shape[0] + y.shape[0], x.shape[1]))  # type: ignore


def peek(x: Distant, row: int) -> Distant:
    """A view of a row."""
    return _op("peek", (x,), x.shape[1:], x, row=row)  # type: ignore[no-any-return]


def sieve(x: Distant) -> Distant:
    """The positive elements: only the other process knows how many."""
    return _op("sieve", (x,), (None,))  # type: ignore[no-any-return]


def ponder(x: Distant) -> Token:
    """Something that is no array."""
    return _call("ponder", (x,), {}, Token)  # type: ignore[no-any-return]


def shatter(x: Distant) -> Distant:
    """Fails in the other process, which shows when the elements are fetched."""
    return _op("shatter", (x,), x.shape)  # type: ignore[no-any-return]


def backward(loss: Distant) -> Distant:
    """The gradient of a loss by the weight of ``quash(warp(frobnicate(x, weight)))``."""
    bent = _maker(loss)[1][0]
    product = _maker(bent)[1][0]
    data, weight = _maker(product)[1]
    for begins in LOSS_HOOKS:
        begins(loss)
    with _differentiated(loss):
        seed = _op("one_like", (loss,), ())
        for hook in GRADIENT_HOOKS:
            hook(loss, seed)
        by_bent = _op("quash_back", (seed, bent), bent.shape)
    with _differentiated(bent):
        by_product = _op("warp_back", (by_bent, bent), product.shape)
    with _differentiated(product):
        gradient: Distant = _op("frobnicate_back", (by_product, data), weight.shape)
    for hook in GRADIENT_HOOKS:
        hook(weight, gradient)
    return gradient


def _maker(array: Distant) -> tuple[str, tuple[Distant, ...]]:
    assert array.made is not None
    return array.made


@contextlib.contextmanager
def _differentiated(result: Distant) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for hook in BACKWARD_HOOKS:
            stack.enter_context(hook(result))
        yield


def refuse(x: Distant) -> Distant:
    """Raises at once."""

    def run() -> Distant:
        raise ArithmeticError("distant refuses")

    return _call("refuse", (x,), {}, run)  # type: ignore[no-any-return]


_sections: list[str] = []
SECTION_HOOKS: list[Callable[[str], contextlib.AbstractContextManager[None]]] = []


@contextlib.contextmanager
def section(name: str) -> Iterator[None]:
    """A part of a model."""
    with contextlib.ExitStack() as stack:
        for hook in SECTION_HOOKS:
            stack.enter_context(hook(name))
        yield


def optimizer_step(x: Distant, by: float) -> None:
    """Change a parameter."""
    nudge_(x, by)
    for hook in STEP_HOOKS:
        hook()
