"""Every op that has C, compiled as a loop and compared with its impl.

Exact ops are compared bit for bit, except NaN payloads; others within the bounds of `prelude.ULPS`,
against results computed with higher precision.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from nodescope import ops
from nodescope.engine.codegen.c_backend import toolchain
from nodescope.engine.codegen.c_backend.expressions import (
    CTYPES,
    OpExpression,
    expression,
    literal,
)
from nodescope.engine.codegen.c_backend.prelude import FUNCTIONS, ULPS, complete
from nodescope.errors import NodescopeError
from nodescope.ir.graph import TensorSpec

FLOATS, INTEGERS = ("float32", "float64"), tuple(d for d in CTYPES if "int" in d)
ALL = [op for op in ops.all_ops() if op.c]
PORTS = {"where": 3, "keep": 2, "dropout": 2, "gelu_grad": 2, "assign": 2}
CONDITION = {"where": 0, "keep": 1, "dropout": 1}
ATTRS: dict[str, list[dict[str, Any]]] = {
    "clip": [{"low": 1, "high": 3}, {"low": None, "high": 2}, {"low": 2, "high": None},
             {"low": -0.5, "high": 0.3}, {"low": 0.0, "high": math.inf}],
    "astype": [{"dtype": item} for item in CTYPES],
    "dropout": [{"p": 0.1}, {"p": 0.0}],
    "gelu": [{}, {"approximate": "tanh"}, {"approximate": "none"}],
    "gelu_grad": [{}, {"approximate": "tanh"}],
    "leaky_relu": [{}, {"slope": 0.3}],
    "elu": [{}, {"alpha": 0.7}], "celu": [{}, {"alpha": 0.7}],
    "hardtanh": [{}, {"low": -0.1, "high": 0.3}],
}  # fmt: skip
SCALARS: dict[str, tuple[Any, ...]] = {
    "power": (2, 3, 4, 1, 0, -1, 0.5, 2.5, -0.1), "float_power": (2, 0.5),
    "add": (0.1, 7, -1), "multiply": (0.1, 2, math.inf), "divide": (3, 0.0), "greater": (0, 0.1),
    "maximum": (0, -0.0, math.nan), "where": (0.0, 1),
}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Silence NumPy's warnings of overflow, which C does not give."""
    with np.errstate(all="ignore"):
        yield


@dataclass(frozen=True)
class Case:
    op: ops.Op
    operands: tuple[Any, ...]
    """A dtype by name per array, else a Python scalar."""
    attrs: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.op.name}({', '.join(map(str, self.operands))}) {self.attrs}"

    def specs(self) -> tuple[Any, ...]:
        return tuple(TensorSpec((5,), e) if isinstance(e, str) else e for e in self.operands)

    def expression(self) -> OpExpression | None:
        try:
            return expression(self.op, self.specs(), self.attrs)
        except NodescopeError:  # The op does not accept these operands.
            return None


def cases(op: ops.Op) -> list[Case]:
    results = []
    count = PORTS.get(op.name, getattr(op.impl, "nin", 1))
    for dtype, attrs in itertools.product(CTYPES, ATTRS.get(op.name, [{}])):
        if op.family == "activation" and dtype not in (*FLOATS, "int16", "int32"):
            continue  # All integer dtypes take the same path.
        operands: list[Any] = [dtype] * count
        if op.name in CONDITION:
            operands[CONDITION[op.name]] = "bool"
        results.append(Case(op, tuple(operands), attrs))
        if dtype in ("float32", "float64", "int32"):
            scalars = SCALARS.get(op.name, ())
            results += [Case(op, (*operands[:-1], scalar), attrs) for scalar in scalars]
    if count == 2 and op.name not in PORTS:
        results += [Case(op, pair, {}) for pair in
                  [("float32", "float64"), ("int32", "float32"), ("bool", "int8"),
                   ("int8", "uint8"), ("uint64", "float32"), ("int64", "uint64"),
                   (2.5, "float32")]]  # fmt: skip
    return results


@cache
def compiled(op: ops.Op) -> list[tuple[Case, OpExpression, str]]:
    """The cases of an op that have C, with the names of their functions."""
    results = []
    for case in cases(op):
        c = case.expression()
        if c is not None:
            results.append((case, c, f"{op.name}_{len(results)}"))
    return results


def library(op: ops.Op) -> toolchain.Library:
    return toolchain.build(complete("".join(text(*item) for item in compiled(op))))


def text(case: Case, c: OpExpression, name: str) -> str:
    parameters, lines, names = [], [], []
    for i, (operand, dtype) in enumerate(zip(case.operands, c.operands, strict=True)):
        kind = CTYPES[dtype]
        if not isinstance(operand, str):
            value = literal(operand, dtype)
            assert value is not None
        elif operand == "bool":
            parameters.append(f"const u8 *NS_RESTRICT x{i}, ")
            value = f"x{i}[i] != 0"
        else:
            parameters.append(f"const {CTYPES[operand]} *NS_RESTRICT x{i}, ")
            value = f"x{i}[i]"
        lines.append(f"const {kind} v{i} = {value};")
        names.append(f"v{i}")
    out = CTYPES[c.dtype]
    return (
        f"NS_EXPORT void {name}({''.join(parameters)}{out} *NS_RESTRICT y, i64 n) {{\n"
        f"  for (i64 i = 0; i < n; i++) {{ {' '.join(lines)} y[i] = {c.fill(*names)}; }}\n}}\n"
    )


def edges(dtype: str) -> np.ndarray:
    """Values at which ops often fail, and some ordinary ones."""
    rng = np.random.default_rng(1)
    if dtype == "bool":
        return np.array([False, True, True, False, True])
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        numbers = [info.min, info.min + 1, -7, -2, -1, 0, 1, 2, 3, 5, 7, 8, 31, 32, 63, 64, 100,
                info.max - 1, info.max]  # fmt: skip
        few = [item for item in numbers if info.min <= item <= info.max]
        return np.concatenate([np.array(few, dtype), rng.integers(info.min, info.max, 9, dtype)])
    info = np.finfo(dtype)
    numbers = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 2.5, 3.0,
            -7.0, 0.1, 6.0, 20.0, -20.0, 88.8, -104.0, 710.0, -746.0, 1e10,
            info.max, -info.max, info.tiny, -info.tiny, info.tiny / 4, -info.tiny / 8,
            info.smallest_subnormal, info.eps]  # fmt: skip
    return np.concatenate([np.array(numbers), rng.standard_normal(20)]).astype(dtype)


def arrays(operands: tuple[Any, ...], salt: int = 0) -> list[np.ndarray]:
    """All pairs of edges, and random numbers; of one length, which no vector divides."""
    dtypes = [value for value in operands if isinstance(value, str)]
    pools = [edges(dtype) for dtype in dtypes]
    if len(pools) > 1:
        crossed = np.meshgrid(*(pool[:60] for pool in pools[-2:]), indexing="ij")
        columns = [array.reshape(-1) for array in crossed]
        if len(pools) == 3:
            columns.insert(0, np.resize(np.array([True, False, True]), columns[0].size))
    else:
        columns = [np.concatenate([pool, pool[::-1], pool]) for pool in pools]
    rng = np.random.default_rng(salt)
    size = columns[0].size + 3001 + (columns[0].size % 2)
    results = []
    for column, dtype in zip(columns, dtypes, strict=True):
        if dtype == "bool":
            more = rng.random(size - column.size) < 0.5
        elif dtype in INTEGERS:
            info = np.iinfo(dtype)
            more = rng.integers(info.min, info.max, size - column.size, dtype)
        else:
            more = (rng.standard_normal(size - column.size) * rng.choice([0.1, 1, 8])).astype(dtype)
        results.append(np.concatenate([column, more]))
    return results


def run(
    library: toolchain.Library, c: OpExpression, name: str, inputs: list[np.ndarray]
) -> np.ndarray:
    result = np.empty(inputs[0].shape, c.dtype)
    function = library.function(name, *[ctypes.c_void_p] * (len(inputs) + 1), ctypes.c_int64)
    function(*(item.ctypes.data for item in (*inputs, result)), result.size)
    return result


def expected(case: Case, inputs: list[np.ndarray]) -> np.ndarray:
    waiting = iter(inputs)
    operands = [next(waiting) if isinstance(e, str) else e for e in case.operands]
    return np.asarray(case.op.impl(*operands, **case.attrs))


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind != "f":
        return a == b
    word = f"u{a.dtype.itemsize}"
    return (a.view(word) == b.view(word)) | (np.isnan(a) & np.isnan(b))


@pytest.mark.parametrize("op", [op.name for op in ALL])
def test_c_gives_what_the_impl_gives(op: str) -> None:
    cases = compiled(ops.get(op))
    assert cases, "every op with C has it for some dtype"
    built = library(ops.get(op))
    for case, c, name in cases:
        inputs = arrays(case.operands)
        result, wanted = run(built, c, name, inputs), expected(case, inputs)
        assert result.dtype == wanted.dtype, str(case)
        right = same_bits(result, wanted) if c.exact else close(case, result, wanted, inputs)
        wrong = np.flatnonzero(~right)[:3]
        at = [([g[i] for g in inputs], result[i], wanted[i]) for i in wrong]
        assert right.all(), f"{case}: {c.text}: {at}"


def close(
    case: Case, result: np.ndarray, wanted: np.ndarray, inputs: list[np.ndarray]
) -> np.ndarray:
    """Within a number of units of the largest intermediate sum."""
    wide = np.longdouble
    size = np.abs(wanted).astype(wide)
    for array in inputs:
        if case.op.family == "activation" or case.op.name.startswith("logaddexp"):
            size = np.fmax(size, np.abs(array.astype(wide)))
    if case.op.name in ("sigmoid", "silu", "mish") or case.op.name.startswith("logaddexp"):
        size = np.maximum(size, 1)
    if case.op.name == "gelu_grad":  # It multiplies a tanh near 1 by a factor that grows with x.
        size = np.abs(inputs[0].astype(wide)) * (1 + np.square(inputs[1].astype(wide)))
    info = np.finfo(result.dtype)
    unit = np.fmin(size, info.max) * info.eps + info.smallest_subnormal
    near = np.abs(result.astype(wide) - wanted) <= 8 * unit
    return near | same_bits(result, wanted)


TRUE: dict[str, Any] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
    "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan, "arcsin": np.arcsin,
    "arccos": np.arccos, "arctan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "arcsinh": np.arcsinh, "arccosh": np.arccosh, "arctanh": np.arctanh, "cbrt": np.cbrt,
    "log2": np.log2, "log10": np.log10, "arctan2": np.arctan2, "hypot": np.hypot,
    "power": np.power, "erf": np.frompyfunc(math.erf, 1, 1),
}  # fmt: skip


@cache
def functions() -> toolchain.Library:
    parts = []
    for name, kind in itertools.product(TRUE, ("f32", "f64")):
        names = "ab"[: getattr(TRUE[name], "nin", 1)]
        parts.append(
            f"NS_EXPORT void {name}_{kind}("
            + "".join(f"const {kind} *NS_RESTRICT {n}, " for n in names)
            + f"{kind} *NS_RESTRICT y, i64 n) {{ for (i64 i = 0; i < n; i++) "
            + f"y[i] = ns_{name}_{kind}({', '.join(f'{n}[i]' for n in names)}); }}\n"
        )
    return toolchain.build(complete("".join(parts)))


def everywhere(dtype: str, salt: int) -> np.ndarray:
    """Numbers of all sizes: random bit patterns, and typical values."""
    rng = np.random.default_rng(salt)
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    patterns = rng.integers(0, np.iinfo(word).max, 60_001, word, endpoint=True).view(dtype)
    usual = [scale * rng.standard_normal(30_001) for scale in (1e-3, 0.3, 3, 30, 300)]
    return np.concatenate([patterns, *usual, edges(dtype)]).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", TRUE)
def test_a_function_stays_within_its_bound(name: str, dtype: str) -> None:
    count = getattr(TRUE[name], "nin", 1)
    inputs = [everywhere(dtype, salt) for salt in range(count)]
    result = np.empty_like(inputs[0])
    kind = CTYPES[dtype]
    function = functions().function(
        f"{name}_{kind}", *[ctypes.c_void_p] * (count + 1), ctypes.c_int64
    )
    function(*(item.ctypes.data for item in (*inputs, result)), result.size)
    wide = np.float64 if dtype == "float32" else np.longdouble
    true = TRUE[name](*(array.astype(wide) for array in inputs)).astype(wide)
    rounded = true.astype(dtype)
    error = np.abs(result.astype(wide) - true) / np.spacing(np.abs(rounded)).astype(wide)
    plain = np.isfinite(rounded) & np.isfinite(result)
    odd = ~plain & ~same_bits(result, rounded)
    assert not odd.any(), [(item[odd][:3], result[odd][:3], rounded[odd][:3]) for item in inputs]
    assert error[plain].max() <= ULPS[name][FLOATS.index(dtype)]
    zero = (result == 0) & (rounded == 0)
    assert np.array_equal(np.signbit(result[zero]), np.signbit(rounded[zero]))


OWN = ("exp", "exp2", "expm1", "log", "log1p", "tanh", "erf")


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", OWN)
def test_a_result_does_not_depend_on_its_place(name: str, kind: str) -> None:
    x = everywhere("float32" if kind == "f32" else "float64", 5)[-100:]
    function = functions().function(f"{name}_{kind}", *[ctypes.c_void_p] * 2, ctypes.c_int64)
    result, alone = np.empty_like(x), np.empty_like(x)
    function(x.ctypes.data, result.ctypes.data, x.size)
    size = x.itemsize
    for i in range(x.size):
        function(x.ctypes.data + i * size, alone.ctypes.data + i * size, 1)
    assert same_bits(result, alone).all()


def test_ops_without_c_are_reported() -> None:
    def has(op: str, *operands: Any, **attrs: Any) -> bool:
        specs = [TensorSpec((2,), value) if isinstance(value, str) else value for value in operands]
        return expression(ops.get(op), specs, attrs) is not None

    assert has("add", "float32", 0.1)
    assert not has("add", "float16", "float16")
    assert not has("add", "complex64", "complex64")
    assert not has("power", "int32", "int32")  # NumPy raises for negative exponents.
    assert not has("less", "int64", "uint64")  # C compares them after a conversion to unsigned.
    assert not has("less", "uint8", -1)  # NumPy compares by value
    # C leaves the result undefined where a number does not fit.
    assert not has("astype", "float32", dtype="uint8")
    assert not has("matmul", "float32", "float32")


def test_called_functions_exist() -> None:
    named = {item for op in ALL for item in re.findall(r"ns_(\w+?)_\{", op.c)}
    helper_names = {item[3:].rsplit("_", 1)[0] for item in FUNCTIONS}
    assert {item for item in named if "{" not in item} - {"gelu", "gelu_grad"} <= helper_names


def test_literals_are_the_same_number() -> None:
    assert literal(0.1, "float32") == (float(np.float32(0.1))).hex() + "f"
    assert literal(0.5, "float64") == "0.5"
    assert literal(-0.0, "float32") == "(-0.0f)"
    assert literal(1e60, "float32") == "((f32)INFINITY)"
    assert literal(-(2**63), "int64") == "INT64_MIN"
    assert literal(300, "uint8") is None
    assert literal(1.5, "int32") is None
    assert literal(1j, "float64") is None
    assert literal(True, "bool") == "1"
