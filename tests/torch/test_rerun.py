"""Recorded operators run again: bit for bit, or with the reason why not."""

from __future__ import annotations

import math
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nodescope.adapters.torch import generators
from nodescope.adapters.torch.rerun.process import RefusedError, TorchProcess
from nodescope.adapters.torch.rerun.refusals import (
    GENERATOR_STATE,
    draws,
    plain_name,
    short_name,
)
from nodescope.adapters.torch.rerun.wire import Request
from nodescope.debug.replay import Replay
from nodescope.errors import ReplayError
from nodescope.ir.attrs import encode
from nodescope.ir.dtypes import bfloat16
from nodescope.record.recording import Recording
from tests.adapters.driving import recorded
from tests.adapters.test_conformance import nodes_of
from tests.core.debug.replay.checking import check
from tests.torch import op_table
from tests.torch.op_samples import samples
from tests.torch.programs import train

UNINITIALISED = {"aten::_ctc_loss", "aten::_ctc_loss.Tensor"}
"""Parts of their results are whatever was in the memory."""
MATRIX_PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::mv", "aten::dot"}
HALF_COMPLEX = "chalf"
"""Recorded as complex64: NumPy has no smaller complex numbers."""


@pytest.fixture(scope="module")
def process() -> Iterator[TorchProcess]:
    process = TorchProcess()
    yield process
    process.end()


def asked(process: TorchProcess, native: str, *arrays: Any, **attrs: Any) -> tuple[Any, ...]:
    return process.ask(Request("run", native, encode(attrs), ()), arrays)


@pytest.mark.parametrize("foreach", [False, True])
def test_training_is_run_again_bit_for_bit(tmp_path: Path, foreach: bool) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, lambda: train(foreach=foreach), level="values")
    with Recording.open(path) as recording:
        checked = check(Replay(recording))
        assert checked.differences == ()
        assert checked.missing == {}
        assert checked.compared > 200


def test_values_that_were_not_kept_are_computed_again(tmp_path: Path) -> None:
    path, whole = tmp_path / "run.nscope", tmp_path / "whole.nscope"
    select = ["op:convolution=summary", "op:batch_norm=summary", "op:layer_norm=summary"]
    recorded(path, train, level="values", select=select)
    recorded(whole, train, level="values")
    with Recording.open(path) as recording, Recording.open(whole) as other:
        for op in ("convolution", "batch_norm", "layer_norm"):
            again = Replay(recording).value(nodes_of(recording)[op].outputs[0])
            assert again.how == "recomputed"
            kept = Replay(other).value(nodes_of(other)[op].outputs[0])
            assert kept.how == "recorded"
            assert again.array.tobytes() == kept.array.tobytes()


def test_what_if_is_what_a_real_run_gives(tmp_path: Path) -> None:
    path, edited = tmp_path / "run.nscope", tmp_path / "edited.nscope"
    recorded(path, train, level="values")
    loss = recorded(edited, lambda: train(1.5), level="values")
    with Recording.open(path) as recording, Recording.open(edited) as other:
        by_op = nodes_of(recording)
        replay = Replay(recording)
        image = by_op["convolution"].inputs[0]
        branch = replay.what_if({image: replay.value(image).array * np.float32(1.5)})
        assert branch.blocked == ()
        changed = branch.value(by_op["nll_loss"].outputs[0])
        assert changed is not None
        assert changed.new.tobytes() == loss.tobytes()
        # All gradients and updates are equal too.
        real = Replay(other)
        by_name = {name: value for value, name in real.book.values.items()}
        for change in branch.changes:
            value = by_name[replay.book.values[change.value]]
            assert change.new.tobytes() == real.value(value).array.tobytes()
        assert len(branch.changes) > 150


def test_attributes_of_the_execution_even_if_they_are_the_default(tmp_path: Path) -> None:
    x = torch.linspace(-2, 2, 9)

    def program() -> Any:
        for given in ((0.3,), ()):
            y = torch.nn.functional.softshrink(x, *given)
        return y.numpy()

    path = tmp_path / "run.nscope"
    recorded(path, program, level="values")
    with Recording.open(path) as recording:
        assert check(Replay(recording)).differences == ()


def draw() -> Any:
    torch.manual_seed(3)
    own = torch.Generator().manual_seed(5)
    x = torch.linspace(-1, 1, 64).requires_grad_()
    y = torch.nn.functional.dropout(x, 0.5)
    y = y + torch.rand(64) + torch.randn(64, generator=own) + torch.randn_like(x)
    y = torch.native_dropout(y, 0.25, True)[0] * torch.bernoulli(torch.full((64,), 0.5))
    y = y + torch.multinomial(torch.ones(8), 64, replacement=True)
    (y + torch.randn(64, generator=own) + torch.randperm(64)).sum().backward()
    return x.grad.numpy()


def test_random_numbers_are_drawn_again_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    plain = draw().tobytes()
    assert recorded(path, draw, level="values").tobytes() == plain
    with Recording.open(path) as recording:
        checked = check(Replay(recording))
        assert checked.differences == ()
        assert checked.missing == {}
        drawing = [row.node for row in recording.nodes() if "rand" in row.node.native]
        assert len(drawing) == 5
        # Each execution has its own generator state; the node, which stands for all executions,
        # has none.
        assert all(GENERATOR_STATE not in node.attrs for node in drawing)


def test_the_number_of_threads_is_that_of_the_operations(tmp_path: Path) -> None:
    path, before = tmp_path / "run.nscope", torch.get_num_threads()

    def program() -> Any:
        torch.set_num_threads(before + 1)
        return torch.ones(3) * 2

    try:
        recorded(path, program)
    finally:
        torch.set_num_threads(before)
    with Recording.open(path) as recording:
        (framework,) = [item for item in recording.run().frameworks if item.dialect == "torch"]
        assert framework.threads == before + 1


def test_a_dropped_value_is_followed_but_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generators, "MOST_BYTES", 0)
    path = tmp_path / "run.nscope"
    recorded(path, lambda: torch.native_dropout(torch.ones(8), 0.5, True), level="summary")
    with Recording.open(path) as recording:
        node = nodes_of(recording)["dropout"]
        with pytest.raises(ReplayError, match="random numbers"):
            Replay(recording).run(
                next(e for e in Replay(recording).executions() if e.node == node.id),
                [np.ones(8, np.float32)],
            )


def is_rounding(outcome: op_table.Outcome) -> bool:
    """Whether a matrix product differs in its last bits: on some processors, MKL's kernel, and with
    it the order of its sums, depends on where the operands lie in memory.
    """
    numbers = re.search(r": (\S+) and (\S+)$", outcome.text)
    if outcome.native not in MATRIX_PRODUCTS or numbers is None:
        return False
    return math.isclose(float(numbers[1]), float(numbers[2]), rel_tol=1e-6)


@pytest.mark.parametrize(
    ("tap", "part", "step"),
    [("native", 0, False), ("python", 6, False), ("native", 12, True), ("python", 18, True)],
)
def test_samples_of_all_operators(
    tap: str, part: int, step: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    result = op_table.table(samples((torch.float32,), 1, (part, 24)), step=step)
    counts = result.counts()
    different = {
        outcome
        for outcome in result.outcomes
        if outcome.kind in ("different", "raised", "unseen")
        and outcome.native not in UNINITIALISED
        and not outcome.sample.startswith(HALF_COMPLEX)
        and "sparse" not in outcome.text
        and not outcome.native.startswith("aten::as_strided")
        and not is_rounding(outcome)
    }
    assert different == set()
    assert counts["equal"] > 100
    assert counts["equal"] > 0.95 * len(result.outcomes)
    assert result.passed == []
    assert not step or result.stopped >= len(result.outcomes)


def test_every_operator_that_draws_is_known_by_name() -> None:
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in getattr(packet, "overloads", list)():
            function = getattr(packet, overload)
            if torch.Tag.nondeterministic_seeded in function.tags:
                native = f"aten::{name}"
                given = {"p": 0.5, "train": True, "dropout_p": 0.5}
                known = draws(plain_name(native), given) or draws(short_name(native), given)
                assert known or name in ("_fused_sdp_choice", "_nested_tensor_softmax_with_shape")


# The process


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(6.0).astype(bfloat16()),
        np.array([1 + 2j, np.nan], np.complex64),
        np.array([], np.int32),
        np.array(True),
        np.array([1 << 60, -1]),
    ],
)
def test_arrays_keep_their_bits(process: TorchProcess, array: Any) -> None:
    (again,) = asked(process, "aten::clone", array)
    assert again.dtype == array.dtype
    assert again.tobytes() == array.tobytes()
    assert again.strides == array.strides


def test_operands_are_not_written_to(process: TorchProcess) -> None:
    x = np.ones(3, np.float32)
    x.flags.writeable = False
    (result,) = asked(process, "aten::mul_.Tensor", x, other=3.0)
    assert result.tolist() == [3, 3, 3]
    assert x.tolist() == [1, 1, 1]


def test_strides_of_the_recorded_memory_are_not_used(process: TorchProcess) -> None:
    x = np.arange(6.0)
    attrs = {"size": (2, 3), "stride": (1 << 20, 1)}
    (again,) = asked(process, "aten::_reshape_alias", x, **attrs)
    assert again.tolist() == [[0, 1, 2], [3, 4, 5]]
    request = Request("places", "aten::_reshape_alias", encode(attrs), ())
    assert process.ask(request, [x])[0].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(RefusedError, match="addresses memory"):
        asked(process, "aten::as_strided", x, **attrs, storage_offset=0)


def test_written_statistics_follow_the_results(process: TorchProcess) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    ones = np.ones(3, np.float32)
    results = asked(
        process, "aten::native_batch_norm", x, ones, ones.copy(), ones.copy(), ones.copy(),
        training=True, momentum=0.1, eps=1e-5,
    )  # fmt: skip
    assert len(results) == 5
    np.testing.assert_allclose(results[3], 0.9 + 0.1 * x.mean((0, 2)), rtol=1e-5)


@pytest.mark.parametrize(
    ("native", "attrs", "text"),
    [
        ("aten::from_file", {"filename": "/etc/passwd"}, "not on numbers"),
        ("prims::add", {}, "no operator of ATen"),
        ("aten::__class__", {}, "has no operator"),
        ("aten::relu.__init__", {}, "has no operator"),
        ("aten::relu; import os", {}, "no operator of ATen"),
        ("aten::zeros", {"size": (1 << 45,)}, "memory"),
        ("aten::zeros", {"size": (2,), "dtype": "nothing"}, "is not known"),
        ("aten::zeros", {"size": (2,), "device": "cuda:0"}, "makes a tensor on cuda:0"),
        ("aten::mm", {}, "fewer tensors"),
    ],
)
def test_what_is_refused(
    process: TorchProcess, native: str, attrs: dict[str, Any], text: str
) -> None:
    with pytest.raises(RefusedError, match=text):
        asked(process, native, **attrs)
    assert asked(process, "aten::relu", np.array([-1.0, 2.0]))[0].tolist() == [0, 2]


def test_a_crash_is_an_error_and_the_next_question_is_answered(process: TorchProcess) -> None:
    x = np.ones(2)
    asked(process, "aten::relu", x)
    first = process._process
    assert first is not None
    send = process._send

    def crash(*arguments: Any) -> None:
        send(*arguments)
        os.kill(first.pid, signal.SIGSEGV)
        os.kill(first.pid, signal.SIGCONT)

    os.kill(first.pid, signal.SIGSTOP)
    process._send = crash  # type: ignore[method-assign]
    with pytest.raises(ReplayError, match=r"PyTorch ended while it ran aten::relu again"):
        asked(process, "aten::relu", x)
    process._send = send  # type: ignore[method-assign]
    assert asked(process, "aten::relu", x)[0].tolist() == [1, 1]
    assert process._process is not first


def test_what_takes_too_long_is_given_up(process: TorchProcess) -> None:
    asked(process, "aten::relu", np.ones(2))
    assert process._process is not None
    os.kill(process._process.pid, signal.SIGSTOP)
    process._answer_s = 0.05
    with pytest.raises(ReplayError, match=r"aten::relu takes more than 0.05 s"):
        asked(process, "aten::relu", np.ones(2))
    process._answer_s = 30.0
    assert asked(process, "aten::relu", np.ones(2))[0].tolist() == [1, 1]


def test_the_process_ends_with_its_parent() -> None:
    program = (
        "import os, numpy as np\n"
        "from nodescope.adapters.torch.rerun.queries import TORCH\n"
        "TORCH.run('aten::relu', {}, [np.ones(2)])\n"
        "print(TORCH.process._process.pid, flush=True)\n"
        "input()\n"
        "os._exit(0)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    child = os.pidfd_open(int(parent.stdout.readline()))
    parent.communicate("\n")
    ended, _, _ = select.select([child], [], [], 60)
    os.close(child)
    assert ended
