"""Why: real small programs that go wrong, and random ones."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import nodescope as ns
from nodescope import nn, ops
from nodescope.debug.replay import Replay
from nodescope.debug.why import Why, render, why
from nodescope.debug.why.nonfinite_origins import state_of
from nodescope.debug.why.rendering import sentence
from nodescope.engine.run import apply
from nodescope.errors import ReplayError, ShapeError
from nodescope.ops.matrices import MatrixError
from nodescope.record.recording import Recording
from tests.core.debug.replay.checking import check
from tests.core.debug.replay.programs import recorded, without_arrays
from tests.core.debug.why import programs as broken
from tests.depth import examples
from tests.programs import OURS, Program, programs


@contextmanager
def run(program: Callable[[], None], folder: Path, level: str = "values"):
    with Recording.open(recorded(folder / "r.nscope", program, level)) as recording:
        yield recording


def names(result: Why) -> list[str]:
    return [item.name for item in result.root.chain()]


def test_an_operation_that_raised_is_explained_by_its_inputs(tmp_path: Path) -> None:
    def program() -> None:
        for step in ns.steps(range(1, 3)):
            matrix = ns.tensor(np.ones((2, 2), np.float32)) * (step + 1)
            with pytest.raises(MatrixError):
                np.linalg.inv(matrix)

    with run(program, tmp_path) as recording, np.errstate(all="ignore"):
        first = why(recording, "inv@1")
        assert (first.root.kind, first.root.step) == ("raised", 1)
        assert first.culprit is first.root
        assert first.root.error.startswith("MatrixError: inv: singular matrix")
        # No single element is responsible: the explanation names the whole input and where it
        # came from.
        assert [(item.name, item.at, item.number) for item in first.root.operands] == [
            ("multiply", None, None)
        ]
        assert [(item.at, item.number) for item in first.root.causes] == [((), None)]
        assert first.root.ranges == ("multiply, float32 (2, 2), is 2",)
        assert names(first)[1].endswith("multiply")  # The chain follows the input.
        assert sentence(first.root).endswith("lstsq. Its input has no NaN and no Inf.")
        said = render(first)
        assert "* inv  [inv, step 1]" in said
        assert said.count("singular matrix") == 1

        with pytest.raises(ReplayError):
            why(recording, "inv[0, 0]@1")  # The node has no element [0, 0].


def test_a_raise_is_followed_to_the_nan_it_was_given(tmp_path: Path) -> None:
    def program() -> None:
        with ns.name_scope("head"):
            bad = np.log(ns.tensor(np.array([-1.0, 2.0, 3.0], np.float32), name="x"))
        with pytest.raises(ShapeError):
            ns.tensor(np.ones((2, 2), np.float32), name="w") @ bad

    with run(program, tmp_path) as recording, np.errstate(all="ignore"):
        result = why(recording, "matmul")
        assert [item.name for item in result.root.operands] == ["head/log", "w"]
        assert result.culprit.name == "head/log"
        assert "log of -1" in sentence(result.root)
        # A message that ends with a question mark keeps it.
        question = replace(result.root, error="no inverse?", operands=())
        assert sentence(question).endswith(": no inverse?")
        assert "raised in step 0: ShapeError" in sentence(result.root)
        assert result.root.ranges[0] == (
            "the inner sizes do not fit: 2 of w (2, 2) and 3 of head/log (3,)"
        )
        assert result.root.ranges[1].startswith("w, float32 (2, 2)")


def test_a_node_that_ran_again_after_it_raised_is_explained_as_usual(tmp_path: Path) -> None:
    def program() -> None:
        for step in ns.steps(range(1, 3)):
            x = ns.tensor(np.full((2, 2), 3.0, np.float32) + step * np.eye(2, dtype=np.float32))
            if step == 1:
                x = x * 0
            try:
                np.linalg.inv(x)
            except Exception:
                pass

    with run(program, tmp_path) as recording:
        assert why(recording, "inv@1").root.kind == "raised"
        assert why(recording, "inv").root.kind == "computed"


def test_log_of_a_negative(tmp_path: Path) -> None:
    with run(broken.log_of_a_negative, tmp_path) as recording:
        result = why(recording, "loss/mean@2")
        end = result.culprit
        assert (end.name, end.kind, end.at, end.step) == ("loss/log", "birth", (4, 0), 2)
        assert end.birth is not None
        assert end.birth.kind == "log of a negative number"
        assert end.words == "log of -3.196"
        assert end.ranges == ("loss/subtract ranges from -3.196 to 1.223 (4 negative of 20)",)
        assert end.line == "loss = np.mean(np.square(np.log(q)))"
        assert end.source is not None
        assert end.source.file.endswith("programs.py")
        assert names(result)[:3] == ["loss/mean", "loss/square", "loss/log"]
        assert names(result)[3:] == ["loss/subtract", "loss/matmul", "loss/tensor"]
        said = sentence(result.root)
        assert "log of -3.196, in loss/log at [4, 0]" in said
        assert "the negative number comes from loss/subtract at [4, 0]" in said
        # The product's operands are those of the term with the negative number.
        product = result.root.chain()[4]
        numbers = {value.name: float(value.number) for value in product.operands[:1]}
        assert numbers == {"loss/tensor": -2.0}
        assert sum(value.share for value in product.operands if value.share) == pytest.approx(1.0)


def test_a_later_step_leads_back_through_the_parameter(tmp_path: Path) -> None:
    with run(broken.log_of_a_negative, tmp_path) as recording:
        result = why(recording, "loss/log@3")
        chain = result.root.chain()
        assert result.root.step == 3
        assert "w" in names(result)
        assert any(item.name.startswith("optimizer/") and item.step == 2 for item in chain)
        assert any(node.phase == "backward" for node in chain)
        assert (result.culprit.name, result.culprit.step) == ("loss/log", 2)


def test_a_gradient_is_explained_like_any_value(tmp_path: Path) -> None:
    def program() -> None:
        x = ns.tensor(np.array([4.0, 0.0]), requires_grad=True, name="x")
        np.sum(np.sqrt(x)).backward()

    with run(program, tmp_path) as recording:
        x = next(row.value.id for row in recording.values() if row.value.name == "x")
        gradient = next(row.gradient for row in recording.gradients() if row.value == x)
        result = why(recording, gradient)
        assert result.root.number == np.inf
        assert result.culprit.phase == "backward"
        assert result.culprit.birth is not None
        assert result.culprit.birth.kind == "division by zero"
        assert names(result)[-1] == "x"


def test_zero_by_zero(tmp_path: Path) -> None:
    with run(broken.zero_by_zero, tmp_path) as recording:
        result = why(recording, "cost/sum")
        assert (result.culprit.name, result.culprit.at) == ("normalise/divide", (1, 0))
        assert result.culprit.birth is not None
        assert (result.culprit.birth.kind, result.culprit.words) == ("0/0", "0 / 0")
        assert names(result)[-2:] == ["normalise/sum", "counts"]


def test_overflow_in_float16(tmp_path: Path) -> None:
    with run(broken.overflow_in_float16, tmp_path) as recording:
        result = why(recording, "divide")  # 300 / inf.
        assert state_of(result.root.number) == "zero"
        result = why(recording, "norm/sum")
        assert (result.culprit.name, result.culprit.at) == ("norm/square", (2,))
        assert result.culprit.words == "square of 300, above the largest float16, 65504"


def test_exploding_rnn(tmp_path: Path) -> None:
    with run(broken.exploding_rnn, tmp_path) as recording:
        result = why(recording, "loss/sum")
        assert result.culprit.birth is not None
        assert result.culprit.birth.kind == "overflow"
        assert result.culprit.op == "matmul"
        assert "above the largest float32" in result.culprit.words
        # Before the culprit the value is finite; the chain follows its larger term.
        after = result.root.chain()
        behind = after[after.index(result.culprit) + 1]
        assert state_of(behind.number) == "finite"
        text = render(result)
        assert "nodes that pass it on …" in text
        assert f"* {result.culprit.name} at" in text


def test_masked_softmax(tmp_path: Path) -> None:
    with run(broken.masked_softmax, tmp_path) as recording:
        result = why(recording, "sum")
        assert result.culprit.name == "attention/softmax"
        assert result.culprit.words == (
            "softmax of a row of 3 elements, all -inf: row 1 is wholly masked"
        )
        last = result.root.chain()[-1]
        assert (last.op, last.words) == ("where", "where passes on the -inf of -inf")
        assert [value.number for value in last.operands if value.selects] == [False]


def test_zeros(tmp_path: Path) -> None:
    with run(broken.dead_relu, tmp_path) as recording:
        result = why(recording, "sum[1]")
        assert result.root.number == 0.0
        assert (result.culprit.op, result.culprit.birth.kind) == ("relu", "clipped")
        assert names(result)[1:3] == ["relu", "matmul"]


def test_named_nans_are_followed(tmp_path: Path) -> None:
    def program() -> None:
        x = ns.tensor(np.array([1.0, -1.0, 0.0, 4.0]), name="x")
        np.sqrt(x) + x / np.abs(x)

    with run(program, tmp_path) as recording:
        result = why(recording, "add[nan]")
        assert (result.elements, result.followed) == (2, 2)
        kinds = {cause.culprit().birth.kind: count for count, cause in result.groups}
        assert kinds == {"sqrt of a negative number": 1, "0/0": 1}
        mask = np.array([False, True, False, True])
        assert [count for count, _ in why(recording, "add", mask).groups] == [1, 1]
        assert "1 of 2 elements traced, out of 2 in all:" in render(result)


def test_a_mask_of_many_is_sampled(tmp_path: Path) -> None:
    with run(lambda: np.log(ns.tensor(-np.ones((50, 40)))), tmp_path) as recording:
        result = why(recording, "log[nan]")
        assert (result.elements, result.followed) == (2000, 16)
        assert [count for count, _ in result.groups] == [16]


def test_inside_of_a_kernel_and_a_branch(tmp_path: Path) -> None:
    @ns.compile(backend="c")
    def f(x: ns.Tensor) -> ns.Tensor:
        inner = np.log(np.tanh(x) - 0.5) * 2.0
        return np.sum(ns.cond(np.sum(x) > 0, lambda y: y + 1.0, lambda y: y * np.nan, inner))

    with run(lambda: f(ns.tensor(np.array([1.0, 0.1, 2.0]))), tmp_path) as recording:
        result = why(recording, "sum_1")
        assert (result.culprit.op, result.culprit.at) == ("log", (1,))
        assert result.culprit.birth is not None
        assert result.culprit.birth.kind == "log of a negative number"


def test_arrays_that_are_not_kept_are_computed_again(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope", broken.log_of_a_negative)
    with Recording.open(path) as whole, Recording.open(without_arrays(path)) as less:
        first, other = why(whole, "loss/mean@2"), why(less, "loss/mean@2")
        assert names(first) == names(other)
        assert [item.words for item in first.root.chain()] == [
            item.words for item in other.root.chain()
        ]
        assert other.culprit.how == "recomputed"
        assert "recomputed" in render(other)


def test_without_arrays_it_says_what_is_missing(tmp_path: Path) -> None:
    with (
        run(broken.log_of_a_negative, tmp_path, "summary") as recording,
        pytest.raises(ReplayError, match="elements in step 2 were not kept"),
    ):
        why(recording, "loss/mean@2")


def test_a_chain_ends_where_arrays_end(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope", broken.exploding_rnn)
    less = without_arrays(path, keep=("matmul", "reduction"))
    with Recording.open(less) as recording:
        result = why(recording, "loss/mean")
        assert result.root.number == np.inf or result.root.kind == "missing"
        assert result.culprit.op == "matmul"
        assert result.culprit.kind == "missing"
        assert "were not kept" in result.culprit.words


def test_finite_numbers_are_followed_by_share(tmp_path: Path) -> None:
    def program() -> None:
        x = ns.tensor(np.array([1.0, 100.0, 2.0]), name="x")
        w = ns.tensor(np.array([3.0, 5.0, 1.0]), name="w")
        with ns.name_scope("out"):
            x @ w

    with run(program, tmp_path) as recording:
        result = why(recording, "out/matmul")
        first = result.root.operands[0]
        assert (first.name, first.at, first.number, first.term) == ("x", (1,), 100.0, 500.0)
        assert first.share == pytest.approx(500 / 505)
        assert [cause.name for cause in result.root.causes] == ["x", "w", "w"]
        assert result.root.words == "matmul of 3 terms, the largest makes up 99%"
        shares = [operand.share for operand in result.root.operands if operand.share is not None]
        assert shares == pytest.approx([500 / 505, 3 / 505, 2 / 505])


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda x: ns.softmax(x, axis=0), "softmax of 5 elements along axis 0 of (5, 2, 3)"),
        (lambda x: ns.softmax(x, axis=-1), "softmax of 3 elements along axis 2 of (5, 2, 3)"),
        (
            lambda x: nn.functional.layer_norm(x, 3, weight=np.full(3, 2.0), bias=np.ones(3)),
            "layer_norm of 3 elements along axis 2 of (5, 2, 3)",
        ),
        (lambda x: np.sum(x, axis=(0, 2)), "sum of 15 terms along axes 0 and 2 of (5, 2, 3)"),
        (np.sum, "sum of 30 terms, the largest"),
    ],
)
def test_the_axis_is_reported(ask: Callable[..., ns.Tensor], words: str, tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(5, 2, 3))
    with run(lambda: ask(ns.tensor(data)), tmp_path) as recording:
        last = [row.value for row in recording.values()][-1]
        assert words in why(recording, last.id, (0,) * len(last.spec.shape)).root.words


def test_the_largest_exponent_leads_a_softmax(tmp_path: Path) -> None:
    def program() -> None:
        ns.softmax(ns.tensor(np.array([-9.0, -1.0, -4.0])))

    with run(program, tmp_path) as recording:
        operands = why(recording, "softmax", 0).root.operands
        assert [value.number for value in operands] == [-1.0, -4.0, -9.0]


def test_targets_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with run(broken.zero_by_zero, tmp_path) as recording:
        with pytest.raises(ReplayError, match=r"no node named 'los'"):
            why(recording, "los")
        with pytest.raises(ReplayError, match="out of bounds"):
            why(recording, "normalise/divide[7, 0]")
        with pytest.raises(ReplayError, match="step 9 is not in the recording"):
            why(recording, "normalise/divide@9")
    with (
        run(broken.exploding_rnn, tmp_path) as recording,
        pytest.raises(ReplayError, match="matches 30 values"),
    ):
        why(recording, "matmul")


def broken_program(program: Program, port: int, at: int) -> Callable[[], None]:
    def go() -> None:
        arrays = [array.copy() for array in program.arrays()]
        arrays[port].reshape(-1)[at] = np.nan
        inputs = [ns.tensor(array, requires_grad=True, name=f"in{i}")
                  for i, array in enumerate(arrays)]  # fmt: skip
        program.loss(OURS, inputs).backward()

    return go


@pytest.mark.deep
@settings(
    max_examples=examples(20), deadline=None, derandomize=True, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(programs(), st.data())
def test_a_nan_in_the_data_is_found_from_wherever_it_got_to(
    program: Program, data: st.DataObject
) -> None:
    arrays = program.arrays()
    port = data.draw(st.integers(0, len(arrays) - 1))
    at = data.draw(st.integers(0, arrays[port].size - 1))
    with tempfile.TemporaryDirectory() as folder:
        path = recorded(Path(folder) / "r.nscope", broken_program(program, port, at))
        with Recording.open(path) as recording:
            reached = [
                (row.node, value) for row in recording.nodes() for value in row.node.outputs
                if (known := recording.latest_at(value)) is not None and known.summary.nan_count
            ]  # fmt: skip
            ends = [item for item in reached if item[0].phase == "forward"][-3:] + reached[-2:]
            for node, value in ends:
                result = why(recording, value, "nan")
                again = why(recording, value, "nan")
                assert render(result) == render(again)
                for _, cause in result.groups:
                    end = cause.culprit()
                    if node.phase == "backward" and end.birth is not None:
                        # The gradient of a maximum compares elements with the maximum; NaN equals
                        # nothing, so 0/0.
                        assert end.birth.kind == "0/0"
                        continue
                    assert end.kind == "leaf", (node, render(result))
                    assert end.name == f"in{port}"
                    place = np.ravel_multi_index(end.at, arrays[port].shape) if end.at else 0
                    assert place == at


def test_a_damaged_file_is_an_error_of_ours(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope", broken.zero_by_zero)
    database = sqlite3.connect(path)
    database.execute("UPDATE blob SET nbytes = nbytes - 3")
    database.commit()
    database.close()
    with Recording.open(path) as recording, pytest.raises(OSError, match="damaged"):
        why(recording, "cost/sum")


def test_millions_of_operands_are_weighed_by_those_that_stand_out(tmp_path: Path) -> None:
    def program() -> None:
        x = np.ones(200_000)
        x[123_456] = -7.0
        x[7:9] = np.nan
        data = ns.tensor(x, name="x")
        np.sum(np.nan_to_num(data))
        np.sum(data)

    with run(program, tmp_path) as recording:
        result = why(recording, "sum")
        assert result.root.operands[0].at == (123_456,)
        assert result.root.others == 200_000 - 6
        result = why(recording, "sum_1")
        assert (
            result.root.words == "sum passes on the nan of x at [7] (2 of 200,000 operands are nan)"
        )


def test_the_factor_that_is_infinite_is_to_blame(tmp_path: Path) -> None:
    def program() -> None:
        w = np.exp(ns.tensor(np.array([[1.0], [1000.0]]), name="w"))
        ns.tensor(np.array([[3.0, 0.0]]), name="x") @ w

    with run(program, tmp_path) as recording:
        result = why(recording, "matmul")
        chain = result.root.chain()
        assert (chain[0].birth.kind, chain[1].name, chain[1].at) == ("0*inf", "exp", (1, 0))
        assert result.culprit.words.startswith("exp of 1000, above the largest float64")


def kept(steps: int) -> Callable[[], None]:
    """A tensor of the first step is used after its node ran again: two values with one id."""

    def program() -> None:
        first = None
        for x in ns.steps(np.linspace(1.0, 3.0, steps)):
            now = np.exp(ns.tensor(np.array(x)))
            if x == 3.0:
                now - first
            first = now if first is None else first

    return program


def test_the_operand_is_of_the_step_that_gives_the_result(tmp_path: Path) -> None:
    with run(kept(3), tmp_path) as recording:
        chain = why(recording, "subtract").root
        assert [float(value.number) for value in chain.operands] == [np.exp(3.0), np.exp(1.0)]
        assert chain.words == "subtract of 20.09 and 2.718"
        assert [cause.step for cause in chain.causes] == [3, 1]
        assert check(Replay(recording)).differences == ()


def test_an_operand_of_long_ago_is_known(tmp_path: Path) -> None:
    with run(kept(9), tmp_path) as recording:
        chain = why(recording, "subtract").root
        assert [float(value.number) for value in chain.operands] == [np.exp(3.0), np.exp(1.0)]
        assert "these operands" not in chain.words
        assert [cause.step for cause in chain.causes] == [9, 1]
        assert check(Replay(recording)).differences == ()


def test_operands_that_do_not_give_the_result_are_reported(tmp_path: Path) -> None:
    """In a file of an earlier release, which does not say which execution wrote an operand."""
    path = recorded(tmp_path / "r.nscope", kept(9))
    database = sqlite3.connect(path)
    database.execute("DROP TABLE operand")
    database.commit()
    database.close()
    with Recording.open(path) as recording:
        result = why(recording, "subtract")
        assert "these operands do not reproduce it" in result.root.words
        assert "these operands" not in why(recording, "exp").root.words
        (checked,) = check(Replay(recording)).differences
        assert checked.node == "subtract"


def test_inside_of_a_scan(tmp_path: Path) -> None:
    @ns.compile
    def f(x: ns.Tensor, w: ns.Tensor) -> ns.Tensor:
        def body(carry: ns.Tensor, row: ns.Tensor) -> tuple[ns.Tensor, ns.Tensor]:
            new = np.sqrt(carry + row @ w)
            return new, new * 2.0

        return np.mean(ns.scan(body, ns.tensor(np.ones(3)), x)[1])

    x = np.ones((6, 2))
    x[3, 1] = -9.0
    with run(lambda: f(ns.tensor(x), ns.tensor(np.ones((2, 3)))), tmp_path) as recording:
        for asked in ("mean", "scan"):
            end = why(recording, asked).culprit
            assert (end.op, end.how, end.at) == ("sqrt", "in scan[3]", (0,))
            assert end.birth is not None
            assert end.birth.kind == "sqrt of a negative number"
        chain = why(recording, "scan:1[5, 2]").root.chain()
        assert [item.how for item in chain][:2] == ["in scan[5]", "in scan[5]"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["conv2d_input_grad", "conv2d_weight_grad", "solve_triangular"])
def test_a_nan_that_is_added_times_zero_comes_from_an_operand(name: str, tmp_path: Path) -> None:
    op = ops.get(name)
    result = 0
    for i, sample in enumerate(op.samples(np.random.default_rng(0))):
        first, second = (np.array(value) for value in sample.inputs)
        (second if name != "solve_triangular" else first).flat[-1:] = np.nan

        def program(left_one: object = first, other: object = second, attrs: dict = sample.attrs):
            apply(op, (ns.tensor(left_one), ns.tensor(other)), attrs)

        with Recording.open(recorded(tmp_path / f"{i}.nscope", program)) as recording:
            try:
                answer = why(recording, name, "nan")
            except ReplayError:
                continue  # The NaN did not reach the result.
            result += 1
            for _, cause in answer.groups:
                assert cause.kind == "passed", cause.words
                assert "passes on the nan" in cause.words
    assert result
