"""The cost of observing PyTorch: training steps of three networks under either tap, by level.

The figures are CPU time of the program's thread; the detail has the time of all threads, including
the recorder's. Other rows have PyTorch's profiler with shapes and stacks, its DebugMode with
modules and stacks, and an empty dispatch mode, which is the lower bound for the Python tap.

While steps run, the profiler only collects; it converts what it collected when it stops. So further
rows compare it for a whole run of steps up to the finished file, in CPU time of all threads.
TorchLens records forward passes: its rows compare the cost that is added to one. Needs PyTorch, and
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
from collections.abc import Callable, Iterator, Sequence
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
STEPS_TO_FILE: Final = 100
"""The number of steps of a run that is measured up to the finished file."""
ROUNDS_TO_FILE: Final = 5
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
_CHEAPER_THAN_TORCHLENS: Final = 30


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
        taps = TAPS if choice.library is not None else ("python",)
        yield from _network(name, training.step, taps, choice.reason)
        yield from _to_file(name, training.step, taps)
        yield from _torchlens(name, training.model, training.inputs, taps)


def _keep_freed_memory() -> None:
    """Have glibc keep freed memory, and use it for large buffers too."""
    with contextlib.suppress(AttributeError, OSError):
        set_option = ctypes.CDLL(None).mallopt
        for option in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            set_option(option, _MOST_KEPT)


def _network(
    name: str, step: Callable[[], object], taps: Sequence[str], reason: str
) -> Iterator[Row]:
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
        cpu = _median_ratio(times[contender].cpu, plain.cpu)
        wall = _median_ratio(times[contender].wall, plain.wall)
        must, aim = _LIMITS.get((name, tap, level), (None, None))
        yield Row(
            f"{name}, {label}", "plain", statistics.median(main), must=must, aim=aim,
            detail=f"{main[0]:.2f} to {main[-1]:.2f}; all threads {cpu:.2f}; on the clock "
            f"{wall:.2f}; plain {statistics.median(plain.own) * 1e3:.2f} ms",
        )  # fmt: skip


def _to_file(name: str, step: Callable[[], object], taps: Sequence[str]) -> Iterator[Row]:
    """A run of steps from its start to the finished file, compared with the profiler's."""

    def run() -> None:
        for _ in range(STEPS_TO_FILE):
            step()

    def observed(context: Callable[[], AbstractContextManager[object]]) -> Callable[[], None]:
        def observed_run() -> None:
            with context():
                run()

        return observed_run

    with tempfile.TemporaryDirectory() as folder:
        trace, recording = Path(folder) / "trace.json", Path(folder) / "bench.nscope"
        contenders = {"plain": run, "profiler": observed(lambda: _traced_to(trace))}
        for tap in taps:
            for level in ("timing", "summary"):
                contenders[f"{tap} {level}"] = observed(_recording(tap, level, recording))
        times = paired_times(contenders, rounds=ROUNDS_TO_FILE, budget_s=0)
    profiler, plain = times.pop("profiler"), times.pop("plain")
    for contender, taken in times.items():
        tap, _, level = contender.partition(" ")
        of_plain = _median_ratio(taken.cpu, plain.cpu), _median_ratio(profiler.cpu, plain.cpu)
        yield Row(
            f"{name}, {STEPS_TO_FILE} steps to the file, {tap} tap, {level}",
            PEERS["profiler"], _median_ratio(taken.cpu, profiler.cpu),
            must=1.0 if name == "gpt2 tiny" else None,
            detail=f"of plain: {of_plain[0]:.2f}, the profiler {of_plain[1]:.2f}; on the clock "
            f"{_median_ratio(taken.wall, plain.wall):.2f}, the profiler "
            f"{_median_ratio(profiler.wall, plain.wall):.2f}",
        )  # fmt: skip


def _median_ratio(ours: Sequence[float], peer: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, peer, strict=True))


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


@contextlib.contextmanager
def _traced_to(path: Path) -> Iterator[None]:
    with _profiler() as profiler:
        yield
    profiler.export_chrome_trace(str(path))


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


def _torchlens(name: str, model: Any, inputs: Any, taps: Sequence[str]) -> Iterator[Row]:
    """A forward pass under TorchLens, and how much less either tap adds to one."""
    try:
        torchlens = importlib.import_module("torchlens")
    except ImportError:
        label, reason = f"{name}, TorchLens, forward", "TorchLens is not installed"
        yield Row(label, "plain forward", None, detail=reason)
        return
    import torch

    trace = getattr(torchlens, "trace", None) or torchlens.log_forward_pass

    def forward() -> object:
        return model(inputs)

    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        within = {
            f"{tap} {level}": _recording(tap, level, Path(folder) / "bench.nscope")
            for tap in taps
            for level in LEVELS_MEASURED
        }
        contenders = {"plain": forward, "lens": lambda: trace(model, [inputs])}
        times = paired_times(
            {**contenders, **dict.fromkeys(within, forward)},
            rounds=ROUNDS_TO_FILE, budget_s=0.1, within=within, warm=WARM,
        )  # fmt: skip
    plain, lens = times.pop("plain").own, times.pop("lens").own
    yield Row(
        f"{name}, TorchLens, forward", "plain forward", _median_ratio(lens, plain),
        detail=f"plain {statistics.median(plain) * 1e3:.2f} ms",
    )  # fmt: skip
    for contender, taken in times.items():
        tap, _, level = contender.partition(" ")
        added = [a - b for a, b in zip(taken.own, plain, strict=True)]
        cheaper = _median_ratio([a - b for a, b in zip(lens, plain, strict=True)], added)
        limited = name == "gpt2 tiny" and level in ("timing", "summary")
        yield Row(
            f"{name}, forward: TorchLens's added cost, {tap} tap, {level}", "the tap's added cost",
            cheaper, must=_CHEAPER_THAN_TORCHLENS if limited else None, more_is_better=True,
            detail=f"of plain: {_median_ratio(taken.own, plain):.2f}",
        )  # fmt: skip
