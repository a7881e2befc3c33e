"""Imports: no cycles of files, except two that speed requires."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Every tensor operation runs these files: tensors call the tape, which makes tensors. The
# tracer's operators are its inner loop, in a file of their own.
ALLOWED = {
    "tensor and tape": {
        "nodescope.engine.autodiff.backward",
        "nodescope.engine.autodiff.hooks",
        "nodescope.engine.autodiff.tape",
        "nodescope.engine.autodiff.tape_slow_paths",
        "nodescope.engine.losses",
        "nodescope.engine.dispatch_mode",
        "nodescope.engine.run",
        "nodescope.engine.signatures",
        "nodescope.engine.tensor",
    },
    "tracer and its operators": {"nodescope.engine.traced_operators", "nodescope.engine.tracer"},
}


def modules() -> dict[str, Path]:
    """Each module's file, by its dotted name."""
    files = {}
    for top in (ROOT / "core", ROOT / "server"):
        for path in top.rglob("*.py"):
            parts = path.relative_to(top).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def imported(path: Path, known: Set[str]) -> set[str]:
    """The modules that a file imports, also within functions and for types only."""
    names = set()
    for statement in ast.walk(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            names |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            submodules = {f"{statement.module}.{alias.name}" for alias in statement.names}
            names |= (submodules & known) or {statement.module}
    return names & known


def circles(graph: Mapping[str, Set[str]]) -> Iterator[set[str]]:
    """The sets of modules that import each other."""
    reached = {module: _reached(graph, module) for module in graph}
    seen: set[str] = set()
    for module in graph:
        circle = {other for other in reached[module] if module in reached[other]} - seen
        if module in circle:
            seen |= circle
            yield circle


def _reached(graph: Mapping[str, Set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for module in graph[waiting.pop()] - reached:
            reached.add(module)
            waiting.append(module)
    return reached


def test_no_files_import_each_other_but_the_two_circles_that_pay_for_speed() -> None:
    files = modules()
    graph = {name: imported(path, files.keys()) - {name} for name, path in files.items()}
    assert len(graph) > 400
    assert sorted(map(sorted, circles(graph))) == sorted(map(sorted, ALLOWED.values()))


def test_a_circle_is_seen() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert list(circles(graph)) == [{"b", "c"}]
