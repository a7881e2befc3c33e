"""Advice for a program in which nodescope sees no operations: findings, and what to change.

The script is read as text and never run or imported; its imports are known from the names of its
modules.

Invariant: pure functions of their arguments; a script that cannot be read gets general advice.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, TypeGuard

import msgspec

from nodescope.ir.capabilities import OWN, Framework, others
from nodescope.record.rows import Advice, LineChange
from nodescope.source_files import source_text

SEE: Final = "nodescope docs supported"
_LONGEST: Final = 1 << 20
_WIDEST: Final = 160
# Top-level modules of libraries that cannot be observed yet, and their names.
_FRAMEWORKS: Final = {
    "torch": "PyTorch",
    "jax": "JAX",
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "mindspore": "MindSpore",
    "paddle": "PaddlePaddle",
    "mxnet": "MXNet",
    "cupy": "CuPy",
    "onnxruntime": "ONNX Runtime",
    "onnx": "ONNX",
    "sklearn": "scikit-learn",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
}
_PROCESSES: Final = {
    "multiprocessing": "multiprocessing",
    "subprocess": "subprocess",
    "concurrent.futures": "concurrent.futures",
    "joblib": "joblib",
}
# Calls that make an array of a program's own data.
_MAKERS: Final = frozenset(
    (
        *("array", "asarray", "zeros", "ones", "full", "empty", "eye", "arange", "linspace"),
        *("load", "loadtxt", "genfromtxt", "normal", "randn", "rand", "random", "uniform"),
        *("standard_normal", "integers"),
    )
)
_SEEN: Final = (
    "nodescope sees operations on its own tensors, including NumPy functions called on them"
)
_PLAIN: Final = "it does not see plain NumPy arrays"


def advise_program(
    script: Path, *, leaves: int = 0, error: str = "", frameworks: Collection[Framework] = ()
) -> Advice:
    """`advise` for the program in this process, with the observed ``frameworks``."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    source = source_text(str(main or script))
    dialects = {framework.dialect for framework in frameworks}
    advice = advise(set(sys.modules) - dialects, script, source, leaves=leaves, error=error)
    libraries = others(frameworks)
    if not libraries:
        return advice
    sentence = f"Observed, but nothing of it ran: {libraries}."
    if leaves or OWN in _imported(_parsed(source)):
        return msgspec.structs.replace(advice, steps=(sentence, *advice.steps))
    if error:
        return msgspec.structs.replace(
            advice, steps=(f"The traceback is in the console; {libraries} had computed nothing.",)
        )
    processes = sorted(set(_PROCESSES) & _imported(_parsed(source)))
    return Advice(
        f"Nothing to show: this program ran no operation of {libraries}",
        f"{libraries} is imported",
        (
            sentence,
            "Its operations in this process are seen as they are; the program needs no change.",
            *_elsewhere([_PROCESSES[name] for name in processes]),
        ),
    )


def advise(
    modules: Collection[str],
    script: Path,
    source: str = "",
    *,
    leaves: int = 0,
    error: str = "",
) -> Advice:
    """Advice for a program that ran no operation visible to nodescope.

    Args:
        modules: Names of the modules that it has imported, as in ``sys.modules``.
        script: Its file.
        source: The text of the file, or ``""``.
        leaves: Number of tensors from which nothing was computed.
        error: How it failed, or ``""``.
    """
    tree = _parsed(source)
    changes = tuple(_changes(tree, source, script.name))
    frameworks = [name for module, name in _FRAMEWORKS.items() if module in modules]
    processes = sorted({_PROCESSES[module] for module in _imported(tree) if module in _PROCESSES})
    headline = "Nothing to show"
    if error:
        return Advice(
            f"{headline}: the program ended before its first operation",
            steps=(
                f"It raised {error}",
                "The traceback is in the console; nothing was computed on nodescope's tensors yet.",
            ),
        )
    if leaves:
        tensors = "1 tensor was made" if leaves == 1 else f"{leaves:,} tensors were made"
        return Advice(
            f"{headline}: {tensors}, but nothing was computed from "
            f"{'it' if leaves == 1 else 'them'}",
            "tensors, but no operation on them",
            (
                "An operation counts if it takes a tensor: np.tanh(x @ w), not np.tanh(x.numpy()).",
                *_elsewhere(processes),
            ),
        )
    if frameworks:
        return Advice(
            f"{headline}: this program computes with {_listed(frameworks)}",
            f"{_listed(frameworks)} is imported"
            if len(frameworks) == 1
            else f"{_listed(frameworks)} are imported",
            (
                f"Operations of {_listed(frameworks)} cannot be seen yet. {_SEEN}.",
                *_elsewhere(processes),
            ),
        )
    if processes:
        return Advice(
            f"{headline} in this process",
            f"the program uses {_listed(processes)}",
            (*_elsewhere(processes), f"{_SEEN}; {_PLAIN}."),
            changes,
        )
    if "numpy" in {module.partition(".")[0] for module in _imported(tree)} or changes:
        return Advice(
            f"{headline}: this program computes with plain NumPy",
            "numpy is imported, but nodescope.tensor is not used",
            (
                f"{_SEEN}; {_PLAIN}.",
                "Wrap the initial arrays; the rest of the program follows:",
            ),
            changes or _GENERAL,
        )
    return Advice(
        headline,
        "neither NumPy nor a framework is imported",
        (f"{_SEEN}; {_PLAIN}.", "A program that nodescope sees starts like this:"),
        _GENERAL,
    )


def lines(advice: Advice) -> tuple[str, ...]:
    """The advice for a terminal, a line each."""
    output = [advice.headline[:1].lower() + advice.headline[1:]]
    if advice.found:
        output.append(f"  found: {advice.found}")
    output += (f"  {step}" for step in advice.steps)
    for change in advice.changes:
        place = f"{change.file}:{change.line}: " if change.line else ""
        before = f"{change.before}  →  " if change.before else "add  " if change.line else ""
        output.append(f"    {place}{before}{change.after}")
    return (*output, f"  more: {SEE}")


_GENERAL: Final = (
    LineChange("", 0, "", "import nodescope as ns"),
    LineChange("", 0, "w = np.zeros((64, 10))", "w = ns.parameter(np.zeros((64, 10)))"),
    LineChange("", 0, "for x in batches:", "for x in ns.steps(batches):  # with x = ns.tensor(x)"),
)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _elsewhere(processes: list[str]) -> tuple[str, ...]:
    if not processes:
        return ()
    return (
        f"Operations in other processes ({_listed(processes)}) are not seen: compute in "
        "this one, or start nodescope serve and call ns.attach() in the other.",
    )


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source if len(source) <= _LONGEST else "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names | {module.partition(".")[0] for module in names}


def _changes(tree: ast.Module, source: str, name: str) -> Iterator[LineChange]:
    """The lines of a NumPy program to change: the import, an array, a loop over its data."""
    numpy = next(
        (
            (node.lineno, alias.asname or alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name == "numpy"
        ),
        None,
    )
    if numpy is None:
        return
    line, called = numpy
    yield LineChange(name, line, "", "import nodescope as ns")  # beside it
    ordered = sorted(
        (node for node in ast.walk(tree) if hasattr(node, "lineno")),
        key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)),
    )
    changed = _changed_in_loops(tree)
    arrays = [node for node in ordered if _makes(node, called)]
    # A loop's changes lead to everything computed; without a loop, any array is a start.
    arrays.sort(key=lambda node: _names(node)[0] not in changed)
    if arrays:
        (target,), call = _names(arrays[0]), ast.get_source_segment(source, arrays[0].value) or ""
        if "\n" not in call and len(call) < _WIDEST:
            # Not a parameter: the program changes it in place, with its own gradients.
            after = f"{target} = ns.tensor({call})"
            yield LineChange(name, arrays[0].lineno, f"{target} = {call}", after)
    loop = next((statement for statement in ordered if isinstance(statement, ast.For)), None)
    if isinstance(loop, ast.For):
        target = ast.get_source_segment(source, loop.target) or ""
        over = ast.get_source_segment(source, loop.iter) or ""
        if "\n" not in target + over and len(target + over) < _WIDEST:
            after = f"for {target} in ns.steps({over}):"
            yield LineChange(name, loop.lineno, f"for {target} in {over}:", after)


def _names(node: ast.AST) -> list[str]:
    """The names that a statement assigns to."""
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _changed_in_loops(tree: ast.Module) -> set[str]:
    """Names that are assigned before a loop and changed in it: ``w -= 0.1 * gradient``."""
    return {
        name
        for loop in ast.walk(tree)
        if isinstance(loop, ast.For | ast.While)
        for statement in ast.walk(loop)
        if isinstance(statement, ast.Assign | ast.AugAssign)
        for name in _names(statement)
        if isinstance(statement, ast.AugAssign)
        or any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(statement.value))
    }


def _makes(node: ast.AST, numpy: str) -> TypeGuard[ast.Assign]:
    """Whether it assigns a new array, such as ``w = np.zeros(3)``, to one name."""
    if not (isinstance(node, ast.Assign) and len(_names(node)) == len(node.targets) == 1):
        return False
    call = node.value
    while isinstance(call, ast.BinOp):  # 0.1 * np.random.randn(3)
        call = call.right if isinstance(call.right, ast.Call) else call.left
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return False
    owner: ast.expr = call.func.value
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    is_numpy = isinstance(owner, ast.Name) and owner.id in (numpy, "rng", "random")
    return is_numpy and call.func.attr in _MAKERS
