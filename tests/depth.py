"""How deep the tests go: how much of what is drawn at random is run, and which tests are left out.

``make test`` runs at the depth ``usual``, ``make test-deep`` everything (``pytest --depth deep``):
all seeds, all examples, the tests marked ``deep``, and all cases of those marked ``one_in(n)``.
``make test-quick`` runs at ``quick``.

Invariant: what is drawn at one depth is a part of what is drawn at a greater one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

Case = TypeVar("Case")
DEPTHS: Final = ("quick", "usual", "deep")
_PARTS: Final = {"quick": 20, "usual": 16, "deep": 1}
_LEAST: Final = {"quick": 4, "usual": 5, "deep": 1}
_NOT_QUICK: Final = {
    "bench", "core/cli", "core/dap", "core/link", "e2e", "integration", "samples", "server",
    "core/test_processes.py", "core/test_refused.py", "core/test_as_unobserved.py",
    "conformance/test_backends.py", "conformance/test_dependence.py", "conformance/test_passes.py",
    "conformance/test_planted_bugs.py", "core/export/test_isolated.py",
    "core/debug/gate/test_interrupts.py", "core/debug/watch/test_live_and_recorded.py",
    "core/debug/why/test_why.py",
    "core/engine/autodiff/test_gradients_limits.py", "core/engine/codegen/c",
    "core/engine/codegen/test_numpy_backend.py", "core/engine/codegen/test_numpy_shares.py",
    "core/engine/numpy_functions/test_numpy_table.py", "core/engine/writing/test_inplace.py",
    "core/record/files", "core/record/test_recorder.py", "core/record/test_recording.py",
    "core/record/test_step_blocks.py", "diagnosis",
}  # fmt: skip
"""What starts commands, servers, browsers and compilers, and what takes many seconds."""
_chosen = "usual"


def choose(depth: str) -> None:
    """Set the depth, before any test module is imported."""
    global _chosen
    _chosen = depth


def count(full: int, least: int = 1) -> int:
    """How many seeds of ``full`` are run: all, or a part, but no fewer than ``least``."""
    return min(full, max(full // _PARTS[_chosen], least))


def some(cases: Sequence[Case], every: int) -> Sequence[Case]:
    """All cases at the depth ``deep``; otherwise every third, fourth, ... of them."""
    return cases if is_deep() else cases[::every]


def is_deep() -> bool:
    """Whether everything is run."""
    return _chosen == "deep"


def leaves_out(path: str) -> bool:
    """Whether a file or folder, from the folder of the tests, is not read at this depth."""
    return _chosen == "quick" and path in _NOT_QUICK


def is_slow(path: str) -> bool:
    """Whether a file, from the folder of the tests, is not for the depth ``quick``."""
    parts = path.split("/")
    return any("/".join(parts[: end + 1]) in _NOT_QUICK for end in range(len(parts)))


def examples(full: int) -> int:
    """How many examples Hypothesis draws of ``full``."""
    return count(full, _LEAST[_chosen])
