"""Depths of testing: how many random cases run, and which tests are left out.

``make test`` runs at the depth ``usual``; ``pytest --depth deep`` runs everything: all seeds, all
examples, the tests marked ``deep``, and all cases of those marked ``one_in(n)``. So does ``make
test-deep``, except tests that ``make test`` runs in the same way (see `tests.repeated`).
``make test-quick`` runs at ``quick``.

Invariant: the cases drawn at one depth are also drawn at every greater depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

Case = TypeVar("Case")
DEPTHS: Final = ("quick", "usual", "deep")
_PARTS: Final = {"quick": 20, "usual": 16, "deep": 1}
_LEAST: Final = {"quick": 4, "usual": 5, "deep": 1}
_NOT_QUICK: Final = {
    "adapters/test_fetching.py", "adapters/test_live.py", "bench", "conformance/test_backends.py",
    "conformance/test_crosscheck.py", "conformance/test_dependence.py",
    "conformance/test_exporters.py", "conformance/test_passes.py",
    "conformance/test_planted_bugs.py", "core/cli", "core/compare/test_late_faults.py", "core/dap",
    "core/debug/gate/test_interrupts.py", "core/debug/watch/graph_rules/test_graph_rules.py",
    "core/debug/watch/test_live_and_recorded.py", "core/debug/why/test_planted_births.py",
    "core/debug/why/test_why.py", "core/engine/autodiff/test_gradients_limits.py",
    "core/engine/codegen/c_backend", "core/engine/codegen/numpy_backend/test_numpy_backend.py",
    "core/engine/codegen/numpy_backend/test_numpy_shares.py", "core/engine/graphs/test_archive.py",
    "core/engine/numpy_functions/test_numpy_table.py", "core/engine/writing/test_inplace.py",
    "core/engine/writing/test_inplace_programs.py", "core/engine/writing/test_inplace_static.py",
    "core/export/test_isolated.py", "core/graph_files/test_broken.py",
    "core/graph_files/test_isolated.py", "core/link", "core/record/files",
    "core/record/kept/test_files.py", "core/record/measured/test_both_roads.py",
    "core/record/measured/test_files.py", "core/record/newest/test_newest.py",
    "core/record/test_recorder.py", "core/record/test_recording.py",
    "core/record/step_times/test_step_blocks.py", "core/record/timed/test_both_tables.py",
    "core/record/timed/test_files.py", "core/test_as_unobserved.py", "core/test_imports.py",
    "core/test_processes.py", "core/test_refused.py", "core/test_thread_frames.py", "diagnosis",
    "e2e", "integration", "samples", "server", "test_docs.py", "test_import_circles.py", "tools",
}  # fmt: skip
"""Files whose tests start commands, servers, browsers or compilers, or take many seconds."""
_chosen = "usual"


def choose(depth: str) -> None:
    """Set the depth, before any test module is imported."""
    global _chosen
    _chosen = depth


def count(full: int, least: int = 1) -> int:
    """The number of seeds to run, of ``full``: all or a part, but at least ``least``."""
    return min(full, max(full // _PARTS[_chosen], least))


def some(cases: Sequence[Case], every: int) -> Sequence[Case]:
    """All cases at the depth ``deep``; otherwise every third, fourth, ... of them."""
    return cases if is_deep() else cases[::every]


def is_deep() -> bool:
    """Whether everything runs."""
    return _chosen == "deep"


def leaves_out(path: str) -> bool:
    """Whether a file or folder, relative to the tests' folder, is not collected at this depth."""
    return _chosen == "quick" and path in _NOT_QUICK


def is_slow(path: str) -> bool:
    """Whether a file, relative to the tests' folder, is too slow for the depth ``quick``."""
    parts = path.split("/")
    return any("/".join(parts[: end + 1]) in _NOT_QUICK for end in range(len(parts)))


def examples(full: int) -> int:
    """The number of examples that Hypothesis draws, of ``full``."""
    return count(full, _LEAST[_chosen])
