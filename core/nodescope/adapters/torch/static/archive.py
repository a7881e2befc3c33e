"""Archives: checks a saved program (``.pt2``) before PyTorch reads it.

PyTorch unpickles objects in such a file, evaluates the expressions of symbolic sizes, and calls the
functions that nodes name. An untrusted file may therefore contain only tensors, operators on them
and arithmetic.

Invariant: no code of a refused file runs; the message names the reason.
"""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import warnings
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

import torch

from nodescope.console_output import last_line, printable
from nodescope.errors import GraphError
from nodescope.plain_files import is_plain

SUFFIX: Final = ".pt2"
_MOST_MEMBERS: Final = 1 << 18
_MOST_JSON: Final = 256 << 20
_MOST_PICKLED: Final = 2 << 30
_LONGEST: Final = 10_000
_TRUST: Final = "if you trust whoever wrote it as you would a script: --trust"

_NAMESPACES: Final = frozenset({"aten", "prims", "quantized_decomposed", "torchvision"})
_OPERATOR: Final = re.compile(r"torch\.ops\.(\w{1,64})\.(\w{1,128})(?:\.(\w{1,64}))?")
# Operators that access files, print, or use memory of others.
_NOT_DATA: Final = frozenset(
    {"from_file", "set_", "set", "set_data", "record_stream", "_print", "from_blob", "_save",
     "_record_function_enter", "_record_function_enter_new", "_record_function_exit"}
)  # fmt: skip
_GRAPHS: Final = frozenset(
    {"cond", "wrap_with_set_grad_enabled", "wrap_with_autocast", "while_loop", "map_impl", "scan",
     "associative_scan", "flex_attention", "strict_mode", "wrap", "tag_activation_checkpoint"}
)  # fmt: skip
_ARITHMETIC: Final = re.compile(
    r"_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|pow|neg|pos|abs|lt|le|gt|ge|eq|ne|and_|"
    r"or_|not_|xor|lshift|rshift)|torch\._?sym_\w{1,32}|math\.(trunc|ceil|floor|sqrt|pow|log2|log|exp)"
)  # fmt: skip
_SYMBOL: Final = re.compile(r"[a-z]{1,4}\d{1,9}|true|false|True|False|int_oo|oo")
_FUNCTIONS: Final = frozenset(
    {"FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt",
     "FloorToInt", "CeilDiv", "LShift", "RShift", "PowByNatural", "FloatPow", "FloatTrueDiv",
     "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt",
     "RoundToInt", "RoundDecimal", "ToFloat", "Identity", "Max", "Min", "Eq", "Ne", "Lt", "Le",
     "Gt", "Ge", "And", "Or", "Not", "Abs", "BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or",
     "OpaqueUnaryFn_sqrt"}
)  # fmt: skip
# Names in the output of `sympy.srepr`.
_SYMPY: Final = frozenset(
    {"Add", "Mul", "Pow", "Integer", "Rational", "Float", "Symbol", "Equality", "Unequality",
     "StrictGreaterThan", "GreaterThan", "StrictLessThan", "LessThan"}
)  # fmt: skip
_NUMBER: Final = re.compile(r"-?\d{1,30}(?:\.\d{0,40})?(?:e[+-]?\d{1,3})?")
_MOST_EXPONENT: Final = 16
_CONTAINERS: Final = frozenset(
    {None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict",
     "torch.Size", "collections.deque"}
)  # fmt: skip


def load_exported(path: Path, *, trusted: bool = False) -> torch.export.ExportedProgram:
    """Load a saved program.

    Args:
        path: The file.
        trusted: Whether to let PyTorch read it without a check.

    Raises:
        GraphError: The file is refused, or cannot be read; the message says why.
    """
    if not is_plain(path):
        raise GraphError(f"no saved program {str(path)!r}")
    try:
        with open(path, "rb") as file:
            if not trusted:
                check(file)
                file.seek(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                before = logging.root.manager.disable
                logging.disable(logging.WARNING)  # PyTorch logs exceptions, with their tracebacks
                try:
                    return torch.export.load(file)
                finally:
                    logging.disable(before)
    except GraphError as error:
        raise GraphError(f"{path.name} is not opened: {error.message}", hint=error.hint) from None
    except OSError as error:
        raise GraphError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except Exception as error:
        raise GraphError(f"PyTorch cannot load {path.name}: {last_line(error)}") from error


def check(file: IO[bytes]) -> None:
    """Refuse an archive that contains anything but a graph of operators and its tensors.

    Raises:
        GraphError: It contains something else; the message says what.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise GraphError("it has too many members")
            names = [member.filename for member in members]
            _check_names(names)
            for member in members:
                part = member.filename.partition("/")[2]
                if part.endswith(".json"):
                    _check_document(part, _json(archive, member))
                if part.startswith("data/sample_inputs/"):
                    _check_pickle(archive, member)
            for member in _pickled(archive, members):
                _check_pickle(archive, member)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError("it is no archive of torch.export.save, or it is damaged") from None


def _check_names(names: list[str]) -> None:
    # If several members have the same name, another reader of the archive might take another one.
    if len({name.lower() for name in names}) != len(names):
        raise GraphError("it has several members of one name")
    roots = {name.partition("/")[0] for name in names}
    parts = {name.partition("/")[2] for name in names}
    if len(roots) != 1 or "archive_format" not in parts:
        raise GraphError("it is no archive of torch.export.save", hint=_TRUST)
    for part in sorted(parts):
        if part.startswith(("data/aotinductor/", "data/executorch/", "data/mtia")):
            raise GraphError("it contains compiled code", hint=_TRUST)
        name = os.path.basename(part)
        if part.startswith("data/constants/") and not (
            name.startswith("tensor_") or name.endswith(".json")
        ):
            raise GraphError(f"it contains a pickled object, {printable(name)}", hint=_TRUST)


def _json(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    if member.file_size > _MOST_JSON:
        raise GraphError(f"{printable(member.filename)} is too large")
    try:
        return json.loads(archive.read(member))
    except (ValueError, RecursionError):
        raise GraphError(f"{printable(member.filename)} cannot be read") from None


def _pickled(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[zipfile.ZipInfo]:
    """The members with tensors that are pickled instead of stored as plain elements."""
    by_name = {member.filename.partition("/")[2]: member for member in members}
    for part, member in by_name.items():
        if not part.startswith(("data/weights/", "data/constants/")) or not part.endswith(".json"):
            continue
        config = _json(archive, member).get("config", {})
        for entry in config.values():
            if entry.get("use_pickle"):
                folder = part.rpartition("/")[0]
                held = by_name.get(f"{folder}/{entry.get('path_name')}")
                if held is not None:
                    yield held


def _check_pickle(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Refuse a pickle that contains anything but tensors in containers."""
    if member.file_size > _MOST_PICKLED:
        raise GraphError(f"{printable(member.filename)} is too large", hint=_TRUST)
    data = archive.read(member)
    if not data:
        return
    try:
        torch.load(BytesIO(data), weights_only=True)
    except Exception:
        raise GraphError(
            f"{printable(member.filename.partition('/')[2])} contains pickled objects", hint=_TRUST
        ) from None


def _check_document(name: str, document: Any) -> None:
    """Check the operators, expressions and containers of a graph."""
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        if not isinstance(item, dict):
            continue
        waiting += item.values()
        if "target" in item and "inputs" in item and "metadata" in item:
            _check_target(item["target"])
        for key in ("as_operator", "expr_str"):
            if isinstance(item.get(key), str):
                (_check_target if key == "as_operator" else _check_expression)(item[key])
        if isinstance(item.get("as_custom_obj"), dict):
            raise GraphError("it contains a custom object", hint=_TRUST)
        ranges = item.get("range_constraints")
        for symbol in ranges if isinstance(ranges, dict) else ():
            _check_expression(symbol)
        for key in ("in_spec", "out_spec"):
            if isinstance(item.get(key), str):
                _check_containers(item[key])


def _check_target(target: Any) -> None:
    text = target if isinstance(target, str) else ""
    operator = _OPERATOR.fullmatch(text)
    known = operator is not None and _is_data(operator[1], operator[2])
    if not known and not _ARITHMETIC.fullmatch(text):
        raise GraphError(f"it calls {printable(text[:80]) or 'something else'}", hint=_TRUST)


def _is_data(namespace: str, name: str) -> bool:
    """Whether an operator only computes with tensors."""
    if namespace == "higher_order":
        return name in _GRAPHS
    return namespace in _NAMESPACES and name not in _NOT_DATA and not name.startswith("__")


def _check_expression(text: str) -> None:
    """Refuse an expression that is not plain arithmetic, because PyTorch evaluates it."""
    try:
        tree = ast.parse(text if len(text) <= _LONGEST else "?", mode="eval")
        fits = _is_arithmetic(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        fits = False
    if not fits:
        raise GraphError(f"the size {printable(text[:80])!r} is no arithmetic", hint=_TRUST)


def _is_arithmetic(node: ast.expr) -> bool:
    """Whether an expression consists of numbers, symbols and known functions of them."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    if isinstance(node, ast.Name):
        return _SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.UnaryOp):
        return _is_arithmetic(node.operand)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Pow):
            return _is_power(node.left, node.right)
        return _is_arithmetic(node.left) and _is_arithmetic(node.right)
    if isinstance(node, ast.BoolOp):
        return all(map(_is_arithmetic, node.values))
    if isinstance(node, ast.Compare):
        return all(map(_is_arithmetic, (node.left, *node.comparators)))
    return isinstance(node, ast.Call) and _is_call(node)


def _is_call(node: ast.Call) -> bool:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in ("Symbol", "Float"):
        first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        form = _SYMBOL if name == "Symbol" else _NUMBER
        return (
            len(node.args) == 1
            and isinstance(first, str)
            and form.fullmatch(first) is not None
            and all(isinstance(keyword.value, ast.Constant) for keyword in node.keywords)
        )
    if node.keywords or not (name in _FUNCTIONS or name in _SYMPY):
        return False
    if name == "Pow":
        return len(node.args) == 2 and _is_power(*node.args)
    return all(map(_is_arithmetic, node.args))


def _is_power(base: ast.expr, exponent: ast.expr) -> bool:
    """Whether a power has a small constant exponent, and a base that contains no power."""
    if isinstance(exponent, ast.Call) and len(exponent.args) == 1:  # Integer(2)
        exponent = exponent.args[0]
    sign = isinstance(exponent, ast.UnaryOp) and isinstance(exponent.op, ast.USub)
    number = exponent.operand if sign and isinstance(exponent, ast.UnaryOp) else exponent
    small = isinstance(number, ast.Constant) and (
        isinstance(number.value, int) and number.value <= _MOST_EXPONENT
    )
    return small and _is_arithmetic(base) and not any(
        isinstance(part, ast.Pow) or (isinstance(part, ast.Name) and part.id == "Pow")
        for part in ast.walk(base)
    )  # fmt: skip


def _check_containers(text: str) -> None:
    try:
        waiting = [json.loads(text)]
    except (ValueError, RecursionError):
        raise GraphError("the form of its inputs cannot be read") from None
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.get("children_spec", [])
            context = item.get("context")
            if item.get("type") not in _CONTAINERS or "__enum__" in str(context):
                raise GraphError(
                    f"its inputs are objects of {printable(str(item.get('type'))[:80])}",
                    hint=_TRUST,
                )
