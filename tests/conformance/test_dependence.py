"""Every op lists the input elements that an output element changes with, and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from nodescope import ops
from nodescope.ops.dependence import ElementDependence, kind_of, made_from
from nodescope.ops.op import Op, Sample
from nodescope.ops.reading import KINDS, flat
from tests.conformance.op_cases import values
from tests.depth import count
from tests.parts import every, run_all

ALL = list(ops.all_ops())
# These ops compute nothing: they order nodes, or are the two ends of a wire.
SIGNALS = {"no_op", "send", "receive"}
# For these, an element listed as exact may have no effect at one position, but not at all of them:
# they have flat parts (steps, comparisons, the smaller operand of a maximum, clipped elements).
FLAT = {
    "floor", "ceil", "rint", "trunc", "round", "sign", "heaviside", "isnan", "isinf", "isfinite",
    "signbit", "logical_not", "logical_and", "logical_or", "logical_xor", "greater", "keep",
    "greater_equal", "less", "less_equal", "equal", "not_equal", "isclose", "maximum", "minimum",
    "fmax", "fmin", "clip", "floor_divide", "divmod", "remainder", "fmod", "copysign", "modf",
    "frexp", "relu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "spacing", "nextafter",
    "ldexp", "imag", "conjugate", "real", "nan_to_num", "bitwise_count", "gcd", "lcm",
    "bitwise_and", "bitwise_or", "left_shift", "right_shift",
}  # fmt: skip
STEP = 1e-4


def samples(op: Op) -> list[Sample]:
    """The samples of an op; below the depth deep, only some."""
    rng = np.random.default_rng(5)
    result = list(op.samples(rng))
    if not result:
        kind = "f" if op.vjp is not None else "i"
        for shape in ((2, 3), (1,)):
            full = tuple(
                np.asarray(values(op, port, (2, 3) if not port else shape, rng, kind))
                for port in range(len(op.ports))
            )
            result.append(Sample(full, {}))
    some = count(len(result), 3)
    return [result[at * len(result) // some] for at in range(some)]


def run(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[np.ndarray, ...]:
    with np.errstate(all="ignore"):
        data = op.impl(*inputs, **attrs)
    return tuple(map(np.asarray, data)) if isinstance(data, tuple) else (np.asarray(data),)


def moved_by(op: Op, sample: Sample, port: int, at: int) -> Any:
    """The inputs with one element changed a little; None if it cannot be changed."""
    array = np.asarray(sample.inputs[port])
    changed = array.copy()
    index = np.unravel_index(at, array.shape)
    if array.dtype.kind == "b":
        changed[index] = not array[index]
    elif array.dtype.kind in "iu":
        least, most = array.min(), array.max()
        changed[index] = array[index] - 1 if array[index] > least else array[index] + 1
        if changed[index] > most and op.family != "random":
            return None
    else:
        changed[index] = array[index] * (1 + STEP) + STEP / 7
    return (*sample.inputs[:port], changed, *sample.inputs[port + 1 :])


def table(op: Op, sample: Sample, outs: tuple[np.ndarray, ...]) -> list[list[ElementDependence]]:
    return [
        [made_from(op, sample.inputs, sample.attrs, outs, i, port) for i in range(out.size)]
        for port, out in enumerate(outs)
    ]


def listed(dependence: ElementDependence, port: int) -> set[int]:
    return {at for read in dependence.reads if read.port == port for at in read.at.tolist()}


@dataclass(frozen=True)
class Case:
    """An op with the results and dependences of its samples, which both tests need."""

    op: Op
    samples: list[tuple[Sample, tuple[np.ndarray, ...], list[list[ElementDependence]]]]


@pytest.fixture(scope="module", params=every(16, [op for op in ALL if op.name not in SIGNALS]))
def cases(request: pytest.FixtureRequest) -> dict[str, dict[str, Case]]:
    """The cases by name of the op, as `run_all` passes them to a check."""
    result = {}
    for op in request.param:
        made = [(sample, run(op, *sample)) for sample in samples(op)]
        triples = [(sample, outs, table(op, sample, outs)) for sample, outs in made]
        result[op.name] = {"case": Case(op, triples)}
    return result


@pytest.mark.one_in(2)
def test_elements_that_change_a_result_are_listed(cases: dict[str, dict[str, Case]]) -> None:
    run_all(check_what_changes, cases, {})


def check_what_changes(case: Case) -> None:
    op = case.op
    assert kind_of(op) in {*KINDS, "body", "branch"}
    for sample, outs, dependence in case.samples:
        for port, value in enumerate(sample.inputs):
            if not isinstance(value, np.ndarray):
                continue
            effects = np.zeros(value.size, bool)
            lists = [[listed(row, port) for row in rows] for rows in dependence]
            for at in range(value.size):
                inputs = moved_by(op, sample, port, at)
                if inputs is None:
                    continue
                try:
                    after = run(op, inputs, sample.attrs)
                except Exception:
                    continue  # The op refuses this value.
                for out, new, list_ in zip(outs, after, lists, strict=True):
                    if out.shape != new.shape:
                        assert all(at in item for item in list_)
                        continue
                    same = (out == new) | ((out != out) & (new != new))
                    for i in np.flatnonzero(~same.reshape(-1)).tolist():
                        effects[at] = True
                        assert at in list_[i], (sample, port, at, i, list_[i])
            check_tight(op, sample, port, outs, dependence)


def check_tight(
    op: Op,
    sample: Sample,
    port: int,
    outs: tuple[np.ndarray, ...],
    dependences: list[list[ElementDependence]],
) -> None:
    """Check that elements listed as exact, other than selectors, change the output element."""
    array = sample.inputs[port]
    if any(np.any(np.asarray(value) == 0) for value in sample.inputs):
        return  # A zero factor hides the effect of the others.
    if op.name in FLAT or array.dtype.kind not in "fc" or kind_of(op) == "drawn":
        return
    after: dict[int, tuple[np.ndarray, ...]] = {}
    for out_port, rows in enumerate(dependences):
        if outs[out_port].dtype.kind not in "fc":
            continue
        for i, row in enumerate(rows):
            reads = [r for r in row.reads if r.port == port and not r.selects]
            if not row.exact or not reads:
                continue
            for at in reads[0].at.tolist():
                if at not in after:
                    after[at] = run(op, moved_by(op, sample, port, at), sample.attrs)
                new, old = after[at][out_port], outs[out_port]
                assert flat(old, np.array([i]))[0] != flat(new, np.array([i]))[0], (
                    sample, port, at, i, row,
                )  # fmt: skip


def test_terms_make_the_element(cases: dict[str, dict[str, Case]]) -> None:
    run_all(check_terms, cases, {})


def check_terms(case: Case) -> None:
    for _, outs, dependence in case.samples:
        for out, rows in zip(outs, dependence, strict=True):
            for i, row in enumerate(rows):
                if row.terms is None:
                    continue
                made = np.sum(row.terms) if row.how == "sum" else np.prod(row.terms)
                element = flat(out, np.array([i]))[0]
                if out.dtype.kind != "c":
                    made = np.real(made)
                np.testing.assert_allclose(made, element, rtol=1e-6, atol=1e-9)
                for port in row.paired:
                    read = next(r for r in row.reads if r.port == port)
                    assert read.at.size == row.terms.size
