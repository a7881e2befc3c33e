"""Makes docs/numpy.md: which of NumPy's functions work on tensors, argument by argument.

    python -m tests.core.engine.numpy_functions.numpy_table            fail if docs/numpy.md is old
    python -m tests.core.engine.numpy_functions.numpy_table --write    bring it up to date

Each function and method runs with each of its optional arguments in turn, once on arrays and once
on tensors with gradients.

Invariant: rows are generated from real calls only.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nodescope as ns
from nodescope.errors import NodescopeError
from tests.core.engine.numpy_functions.numpy_arguments import (
    ALONE,
    ATTRIBUTES,
    DIFFERENT,
    FIRST,
    NO_GRADIENT,
    OF_METHODS,
    SPECIAL,
    UFUNC_CALLS,
    UFUNC_OPERANDS,
    VALUES,
    A,
    Like,
    Out,
    T,
)
from tools.ops_table import functions

DOCUMENT = Path(__file__).parents[4] / "docs" / "numpy.md"
MODULES = {"": np, "linalg.": np.linalg, "fft.": np.fft}


class Outcome(NamedTuple):
    """The outcome of one call.

    Attributes:
        kind: ``works``, ``refused``, ``differs``, ``error`` (of no kind of ours) or ``none``
            (NumPy itself refuses it).
        said: The message, or how it differs.
    """

    kind: str
    said: str = ""


class Call(NamedTuple):
    """One call: of a function (named with its module) or of a method (after a dot)."""

    name: str
    argument: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def signature(name: str) -> dict[str, inspect.Parameter]:
    """The optional parameters of a function or method, those in ``**kwargs`` included."""
    result = dict(_parameters(function(name)))
    if name.startswith(".") and any(item.kind == item.VAR_KEYWORD for item in result.values()):
        base = _parameters(getattr(np, name[1:])) if hasattr(np, name[1:]) else {}
        result.update({key: item for key, item in base.items() if key not in ("a", "x")})
    return {
        key: item
        for key, item in result.items()
        if item.default is not item.empty and item.kind != item.POSITIONAL_ONLY and key != "like"
    }


def _parameters(called: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(called).parameters)
    except ValueError:
        return {}


def function(name: str) -> Any:
    """The function, or method of arrays, of a name."""
    if name.startswith("."):
        return getattr(np.ndarray, name[1:])
    module, _, last = name.rpartition(".")
    if module and f"{module}." not in MODULES:  # A method of a ufunc.
        return getattr(getattr(np, module), last)
    return getattr(MODULES[f"{module}." if module else ""], last)


def names() -> Iterator[str]:
    """All functions other than ufuncs, and all methods."""
    for prefix, module in MODULES.items():
        for name, called in functions(module).items():
            if not isinstance(called, np.ufunc) and name != "test":
                yield prefix + name
    yield "nditer"  # A class, but called like a function.
    for name in dir(np.ndarray):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not name.startswith("_") and callable(getattr(np.ndarray, name)):
                yield f".{name}"


def first(name: str) -> tuple[Any, ...] | None:
    """The required arguments; None if a tensor cannot be among them."""
    if name in FIRST:
        return FIRST[name]
    if name.startswith("."):
        return ()
    required = [
        parameter.name
        for parameter in _parameters(function(name)).values()
        if parameter.default is parameter.empty and parameter.kind in (parameter.POSITIONAL_ONLY,
                                                       parameter.POSITIONAL_OR_KEYWORD)
    ]  # fmt: skip
    if name.startswith("atleast") or (len(required) == 1 and required[0] in _ARRAYS):
        return (T(A),)
    return None


_ARRAYS = frozenset("axmvzpfyA") | {"ary", "arr", "array", "val", "filt", "element", "object"}


def calls(name: str) -> list[Call]:
    """The calls of a function: bare, and with each argument in turn."""
    inputs = first(name)
    if inputs is None:
        return []
    results = [Call(name, "", inputs, {})]
    for key in signature(name):
        values = SPECIAL.get(f"{name}.{key}", VALUES.get(key, []))
        results.extend(Call(name, key, inputs, {key: value}) for value in values)
    return results + _alone(name)


def _alone(name: str) -> list[Call]:
    return [
        Call(name, label.partition("(")[2][:-1], args, kwargs)
        for label, (args, kwargs) in ALONE.items()
        if label.partition("(")[0] == name
    ]


# Running


def _filled(value: Any, tensor: Callable[[Any], Any], kept: list[Any]) -> Any:
    if isinstance(value, T):
        kept.append(tensor(value.array))
        return kept[-1]
    if isinstance(value, list | tuple) and not isinstance(value, Out | Like):
        return type(value)([_filled(item, tensor, kept) for item in value])
    return value.copy() if isinstance(value, np.ndarray) else value


def _run(call: Call, tensor: Callable[[Any], Any], base: Any) -> tuple[Any, list[Any]]:
    """The result, and the arrays or tensors that it was given."""
    kept: list[Any] = []
    args = _filled(call.args, tensor, kept)
    kwargs = {key: _filled(value, tensor, kept) for key, value in call.kwargs.items()}
    if call.name.startswith("."):
        owner = tensor(OF_METHODS.get(call.name[1:], A))
        kept.insert(0, owner)
        called = getattr(owner, call.name[1:])
    else:
        called = function(call.name)
    if isinstance(kwargs.get("out"), Out):
        kwargs["out"] = tensor(np.zeros_like(base))
        kept.append(kwargs["out"])
    if isinstance(kwargs.get("mean"), Like):
        kwargs["mean"] = np.mean(kept[0], keepdims=True)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return called(*args, **kwargs), kept


def _array(value: Any) -> Any:
    return np.array(value)


def _tensor(value: Any) -> Any:
    array = np.array(value)
    if array.dtype.kind not in "fc":
        return ns.tensor(array)
    return ns.tensor(array, requires_grad=True).copy()


def outcome(call: Call) -> Outcome:
    """Run a call both ways."""
    base = None
    try:
        if isinstance(call.kwargs.get("out"), Out):
            rest = {key: value for key, value in call.kwargs.items() if key != "out"}
            base, _ = _run(call._replace(kwargs=rest), _array, None)
        expected, arrays = _run(call, _array, base)
    except Exception:
        return Outcome("none")
    try:
        result, tensors = _run(call, _tensor, base)
    except NodescopeError as error:
        return Outcome("refused", f"{error.message}; {error.hint}" if error.hint else error.message)
    except Exception as error:
        return Outcome("error", f"{type(error).__name__}: {error}")
    message = _difference(result, expected) or next(
        filter(None, map(_difference, tensors, arrays)), ""
    )
    if not message and isinstance(call.kwargs.get("out"), Out) and result is not tensors[-1]:
        message = "the result is not out"
    return Outcome("differs", message) if message else Outcome("works")


def _difference(result: Any, expected: Any) -> str:
    """How a result is another than NumPy's, or ``""``."""
    if isinstance(expected, tuple | list):
        if not isinstance(result, tuple | list) or len(result) != len(expected):
            return f"gives {type(result).__name__}, NumPy {len(expected)} results"
        return next(filter(None, map(_difference, result, expected)), "")
    if not isinstance(result, ns.Tensor):
        if isinstance(expected, np.ndarray | np.generic):
            if isinstance(result, np.ndarray | np.generic):
                return "gives an array, outside of the graph"
            same = np.array_equal(result, expected)
            return "" if same else f"gives {type(result).__name__}"
        same = type(result) is type(expected) and (result == expected or callable(result))
        return "" if same else f"gives {result!r}, NumPy {expected!r}"
    wanted = np.asarray(expected)
    array = result.numpy()
    if array.dtype != wanted.dtype:
        return f"dtype {array.dtype}, NumPy {wanted.dtype}"
    if array.shape != wanted.shape:
        return f"shape {array.shape}, NumPy {wanted.shape}"
    if not np.allclose(array, wanted, rtol=1e-6, atol=1e-9, equal_nan=True):
        return "other values"
    return ""


def gradient(call: Call) -> bool | None:
    """Whether a gradient flows from the result to what was given; None if it is not of floats."""
    base = None
    if isinstance(call.kwargs.get("out"), Out):
        rest = {key: value for key, value in call.kwargs.items() if key != "out"}
        base, _ = _run(call._replace(kwargs=rest), _array, None)
    result, tensors = _run(call, _tensor, base)
    if not any(tensor.requires_grad for tensor in tensors):
        return None
    results = [leaf for leaf in _leaves(result) or tensors[:1] if leaf.dtype.kind in "fc"]
    return any(result.requires_grad for result in results) if results else None


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value] if isinstance(value, ns.Tensor) else []


def ufunc_calls(name: str) -> list[Call]:
    """The calls of a ufunc and of its methods."""
    ufunc = getattr(np, name)
    operand_set = next((item for item in UFUNC_OPERANDS if _takes(ufunc, item)), None)
    if operand_set is None:
        return []
    results = []
    for method, argument, options in UFUNC_CALLS:
        operands: tuple[Any, ...] = tuple(map(T, operand_set[: ufunc.nin]))
        kwargs = dict(options)
        if "where" in kwargs:
            kwargs["where"] = (
                operand_set[0] > np.median(operand_set[0])
                if operand_set[0].dtype != bool
                else operand_set[0]
            )
        if method in (".reduce", ".accumulate"):
            operands = operands[:1]
        elif method == ".reduceat":
            operands = (operands[0], [0, 1])
        elif method == ".at":
            operands = (operands[0], [0, 0], *((2,) if ufunc.nin == 2 else ()))
        several = ufunc.nout > 1 and "out" in kwargs
        if (method in ("", ".at") or ufunc.nin == 2) and not several:
            results.append(Call(name + method, argument, operands, kwargs))
    return results + _alone(name)


def _takes(ufunc: Any, operand_set: tuple[Any, ...]) -> bool:
    try:
        with np.errstate(all="ignore"):
            result = ufunc(*operand_set[: ufunc.nin])
    except (TypeError, ValueError):
        return False
    parts = result if isinstance(result, tuple) else (result,)
    return not any(np.isnan(part).any() for part in parts)


def ufuncs() -> list[str]:
    """Names of the ufuncs, each once."""
    result = functions(np).items()
    return [name for name, item in result if isinstance(item, np.ufunc) and item.__name__ == name]


def everything(part: int = 0, parts: int = 1) -> list[tuple[Call, Outcome]]:
    """All calls with their outcomes, or those of every ``parts``-th function."""
    every_call = [call for name in list(names())[part::parts] for call in calls(name)]
    every_call += [call for name in ufuncs()[part::parts] for call in ufunc_calls(name)]
    return [(call, outcome(call)) for call in every_call]


def faults(outcomes: list[tuple[Call, Outcome]]) -> list[str]:
    """Forbidden outcomes: a foreign error, a difference or a lost gradient without a reason."""
    results = []
    for call, result in outcomes:
        key, key_text = f"{call.name} {call.argument}".strip(), result.said
        excused = call.name in DIFFERENT or key in DIFFERENT
        if result.kind in ("error", "differs") and not excused:
            results.append(f"{key} {call.kwargs}: {result.kind}: {key_text}")
        if result.kind == "refused" and (_INTERNAL.search(key_text) or "; " not in key_text):
            results.append(
                f"{key} {call.kwargs}: not good English, or without a way out: {key_text}"
            )
        smooth = call.name not in NO_GRADIENT and key not in NO_GRADIENT
        if result.kind == "works" and smooth and gradient(call) is False:
            results.append(f"{key} {call.kwargs}: the gradient is lost")
    return results


_INTERNAL = re.compile(
    r"_bind|<lambda>|unexpected keyword|positional argument|NoneType|object at 0x"
)


# The document


def document(outcomes: list[tuple[Call, Outcome]]) -> str:
    """docs/numpy.md."""
    parts = [_HEAD.format(version=".".join(np.__version__.split(".")[:2]))]
    by_name: dict[str, list[tuple[Call, Outcome]]] = {}
    for call, result in outcomes:
        by_name.setdefault(call.name, []).append((call, result))
    plain = {name: rows for name, rows in by_name.items() if not _of_ufunc(name)}
    plain = {name: rows for name, rows in plain.items() if any(r.kind != "none" for _, r in rows)}
    refused = [name for name, rows in plain.items() if rows[0][1].kind in ("refused", "error")]
    sections = {
        "Functions": [name for name in plain if "." not in name],
        "Methods of arrays": [name for name in plain if name.startswith(".")],
        "np.linalg": [name for name in plain if name.startswith("linalg.")],
        "np.fft": [name for name in plain if name.startswith("fft.")],
    }
    for title, listed in sections.items():
        rows = [
            f"| `{_shown(name)}` | {_working(plain[name])} | {_others(plain[name])} |"
            for name in listed if name not in refused
        ]  # fmt: skip
        parts += [f"## {title}", _table("Arguments that work", "Refused, or different", rows)]
        if title == "Methods of arrays":
            parts.append(_attributes())
    parts += ["## Ufuncs", _UFUNCS, _of_ufuncs(by_name)]
    messages = [DIFFERENT.get(name, _cell(plain[name][0][1].said)) for name in refused]
    parts += ["## Not traced", "| | The error |\n|-|-|"]
    parts[-1] += "".join(
        f"\n| `{_shown(name)}` | {message} |"
        for name, message in zip(refused, messages, strict=True)
    )
    return "\n\n".join(parts) + "\n"


def _table(first: str, second: str, rows: list[str]) -> str:
    return "\n".join([f"| | {first} | {second} |", "|-|-|-|", *rows])


def _of_ufunc(name: str) -> bool:
    return isinstance(getattr(np, name.partition(".")[0] or " ", None), np.ufunc)


def _shown(name: str) -> str:
    return f"x{name}" if name.startswith(".") else f"np.{name}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _working(rows: list[tuple[Call, Outcome]]) -> str:
    """The arguments for which some value works."""
    result = dict.fromkeys(
        call.argument for call, result in rows if result.kind == "works" and call.argument
    )
    note = NO_GRADIENT.get(rows[0][0].name)
    listed = " ".join(f"`{argument}`" for argument in result)
    return f"{listed} ({note}: no gradient)".strip() if note else listed


def _others(rows: list[tuple[Call, Outcome]]) -> str:
    results: dict[str, dict[str, None]] = {}
    for call, result in rows:
        if result.kind in ("refused", "differs", "error"):
            key = f"{call.name} {call.argument}".strip()
            message = DIFFERENT.get(key, DIFFERENT.get(call.name, result.said))
            results.setdefault(message, {})[_value(call)] = None
    return "<br>".join(
        f"{', '.join(f'`{value}`' for value in values if value)}: {_cell(message)}".removeprefix(
            ": "
        )
        for message, values in results.items()
    )


def _value(call: Call) -> str:
    value = call.kwargs.get(call.argument)
    if isinstance(value, np.ndarray | T | Out | Like) or call.argument not in call.kwargs:
        return f"{call.argument}=" if call.argument in call.kwargs else call.argument
    return f"{call.argument}={value!r}"


def _attributes() -> str:
    x = ns.tensor(A)
    works, refused = [], []
    for name in ATTRIBUTES.split():
        try:
            getattr(x, name)
            works.append(f"`{name}`")
        except NodescopeError:
            refused.append(f"`{name}`")
    return (
        f"Attributes: {', '.join(works)}. Refused, because they belong to the array (`x.numpy()`): "
        f"{', '.join(refused)}. `data` is the array itself; do not write to it."
    )


def _of_ufuncs(by_name: dict[str, list[tuple[Call, Outcome]]]) -> str:
    lines = []
    for name in ufuncs():
        works: dict[str, list[str]] = {}
        refused: dict[str, dict[str, None]] = {}
        for method in ("", "reduce", "accumulate", "outer", "reduceat", "at"):
            for call, result in by_name.get(f"{name}.{method}" if method else name, []):
                if result.kind == "works":
                    known = works.setdefault(method, [])
                    if call.argument and f"`{call.argument}`" not in known:
                        known.append(f"`{call.argument}`")
                elif result.kind != "none":
                    argument_text = f"{method} {call.argument}".strip()
                    refused.setdefault(result.said, {})[argument_text] = None
        argument_text = " · ".join(
            f"{method} {' '.join(known)}".strip() for method, known in works.items()
        )
        refusals = "<br>".join(
            f"{', '.join(f'`{value}`' for value in values)}: {_cell(text)}"
            for text, values in refused.items()
        )
        lines.append(f"| `np.{name}` | {argument_text} | {refusals} |")
    return _table("Arguments and methods that work", "Refused", lines)


_HEAD = """# NumPy on tensors, argument by argument

How each function and method of NumPy {version}, with each optional argument, behaves on tensors. \
Generated by `python -m tests.core.engine.numpy_functions.numpy_table --write`, which runs every \
call on arrays and on tensors that require gradients, and compares values, dtypes, shapes and \
everything written in place; the tests keep it up to date. An argument that works gives NumPy's \
result, and gradients flow where the result is floating point. Anything refused raises the error \
shown here, with your line in it. Values that NumPy itself refuses are not listed."""

_UFUNCS = """`out=` takes a tensor. `where=` without `out=` is refused for all: NumPy leaves \
elements without a value there. So is `signature=`: say `dtype=`."""


def main(argv: list[str]) -> int:
    """The command; its exit code."""
    outcomes = everything()
    wrong = faults(outcomes)
    for fault in wrong:
        print(fault)
    wanted = document(outcomes)
    if "--write" in argv:
        DOCUMENT.write_text(wanted, encoding="utf-8")
    elif not DOCUMENT.exists() or DOCUMENT.read_text(encoding="utf-8") != wanted:
        print(f"{DOCUMENT.name} is out of date: run with --write")
        return 1
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
