"""The cost of observing PyTorch: training steps of three networks under either tap, by level.

The figures are CPU time of the program's thread; the detail has the time of all threads, including
the recorder's. Other rows have PyTorch's profiler with shapes and stacks, its DebugMode with
modules and stacks, an empty dispatch mode, which is the lower bound for the Python tap, and
TorchLens, which records a forward pass and is compared with that alone. Needs PyTorch, and
TorchLens for its rows (``pip install torchlens``): ``.venv-torch/bin/python -m bench torch_tap``.

The C library keeps freed memory meanwhile, for the plain and the observed steps alike: by default
it returns and requests large buffers again, in some runs and not in others, which makes the same
step up to a third slower.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import nodescope as ns
from bench.measure import Row, paired_times
from nodescope.events import Level

ROUNDS: Final = 9
WARM: Final = 5
"""Untimed steps in each round: the first steps of a run are observed operator by operator."""
TAPS: Final = ("native", "python")
PEERS: Final = {
    "profiler": "torch.profiler, shapes and stacks", "debug": "DebugMode, modules and stacks",
    "empty": "a dispatch mode that does nothing",
}  # fmt: skip
LEVELS_MEASURED: Final[tuple[Level, ...]] = ("graph", "timing", "summary", "values")
# Options of glibc's `mallopt`, in bytes.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_KEPT: Final = 1 << 30
_LIMITS: Final = {
    ("gpt2 tiny", "python", "timing"): (2.2, 1.7),
    ("gpt2 tiny", "python", "summary"): (3.5, 2.5),
    ("gpt2 tiny", "native", "timing"): (1.25, 1.15),
    ("gpt2 tiny", "native", "summary"): (1.6, 1.35),
    ("resnet18", "native", "timing"): (1.15, None),
    ("resnet18", "native", "summary"): (1.3, None),
}


def rows() -> Iterator[Row]:
    """Each network at each level, under both taps."""
    if importlib.util.find_spec("torch") is None:
        yield Row("a training step in PyTorch", "plain", None, detail="PyTorch is not installed")
        return
    import torch

    from bench.torch_networks import NETWORKS
    from nodescope.adapters.torch.native_tap import choosing

    torch.set_num_threads(1)
    _keep_freed_memory()
    os.environ[choosing.VARIABLE] = "native"
    choice = choosing.choose()
    for name, make in NETWORKS.items():
        training = make()
        yield from _network(name, training.step, choice.library is not None, choice.reason)
        yield _torchlens(name, training.model, training.inputs)


def _keep_freed_memory() -> None:
    """Have glibc keep freed memory, and use it for large buffers too."""
    with contextlib.suppress(AttributeError, OSError):
        set_option = ctypes.CDLL(None).mallopt
        for option in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            set_option(option, _MOST_KEPT)


def _network(name: str, step: Callable[[], object], native: bool, reason: str) -> Iterator[Row]:
    taps = TAPS if native else ("python",)
    with tempfile.TemporaryDirectory() as folder:
        within: dict[str, Callable[[], AbstractContextManager[object]]] = {
            f"{tap} {level}": _recording(tap, level, Path(folder) / "bench.nscope")
            for tap in taps
            for level in LEVELS_MEASURED
        }
        within["profiler"], within["debug"] = _profiler, _debug_mode
        within["empty"] = _empty_mode
        contenders = {"plain": step, **dict.fromkeys(within, step)}
        times = paired_times(contenders, rounds=ROUNDS, within=within, budget_s=0.1, warm=WARM)
    plain = times["plain"]
    peers = [f"{tap} {level}" for level in LEVELS_MEASURED for tap in TAPS]
    for contender in [*peers, *PEERS]:
        tap, _, level = contender.partition(" ")
        label = f"{tap} tap, {level}" if level else PEERS[contender]
        if contender not in times:
            yield Row(f"{name}, {label}", "plain", None, detail=reason)
            continue
        main = sorted(a / b for a, b in zip(times[contender].own, plain.own, strict=True))
        cpu = statistics.median(a / b for a, b in zip(times[contender].cpu, plain.cpu, strict=True))
        wall = [a / b for a, b in zip(times[contender].wall, plain.wall, strict=True)]
        must, aim = _LIMITS.get((name, tap, level), (None, None))
        yield Row(
            f"{name}, {label}", "plain", statistics.median(main), must=must, aim=aim,
            detail=f"{main[0]:.2f} to {main[-1]:.2f}; all threads {cpu:.2f}; on the clock "
            f"{statistics.median(wall):.2f}; plain {statistics.median(plain.own) * 1e3:.2f} ms",
        )  # fmt: skip


def _recording(tap: str, level: Level, path: Path) -> Callable[[], AbstractContextManager[object]]:
    @contextlib.contextmanager
    def recording() -> Iterator[None]:
        from nodescope.adapters.torch.native_tap import choosing

        os.environ[choosing.VARIABLE] = tap
        with ns.record(path, level=level):
            yield

    return recording


def _profiler() -> Any:
    import torch

    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, with_stack=True
    )


def _debug_mode() -> Any:
    from torch.utils._debug_mode import DebugMode

    return DebugMode(record_nn_module=True, record_ids=True, record_stack_trace=True)


def _empty_mode() -> Any:
    """A dispatch mode that only calls the operator: PyTorch's own cost under the Python tap."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Empty(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    return Empty()


def _torchlens(name: str, model: Any, inputs: Any) -> Row:
    """A forward pass under TorchLens, which adds its own hooks to the model."""
    label = f"{name}, TorchLens, forward"
    try:
        torchlens = importlib.import_module("torchlens")
    except ImportError:
        return Row(label, "plain forward", None, detail="TorchLens is not installed")
    import torch

    trace = getattr(torchlens, "trace", None) or torchlens.log_forward_pass
    with torch.no_grad():
        times = paired_times(
            {"plain": lambda: model(inputs), "traced": lambda: trace(model, [inputs])},
            rounds=min(ROUNDS, 3), budget_s=0,
        )  # fmt: skip
    pairs = list(zip(times["traced"].own, times["plain"].own, strict=True))
    return Row(
        label, "plain forward", statistics.median(a / b for a, b in pairs),
        detail=f"plain {statistics.median(times['plain'].own) * 1e3:.2f} ms",
    )  # fmt: skip
