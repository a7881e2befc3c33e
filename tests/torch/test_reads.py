"""Which elements an element is made from: compared with changing one input after another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from nodescope.debug.replay import Replay
from nodescope.debug.replay.dialects import RecordedCall
from nodescope.debug.replay.execution_index import ValueSource
from nodescope.debug.why import why
from nodescope.events import Array
from nodescope.ops.reading import ElementDependence
from nodescope.record.recording import Recording
from tests.adapters.driving import recorded
from tests.adapters.test_conformance import nodes_of
from tests.torch.programs import closed_gates, half_overflow
from tests.torch.read_oracle import compared

RNG = np.random.default_rng(0)


def some(*shape: int) -> Any:
    """Numbers that are neither zero nor equal, and have a gradient."""
    numbers = RNG.permutation(np.linspace(0.2, 1.7, int(np.prod(shape)))).reshape(shape)
    return torch.from_numpy(numbers).requires_grad_()


def at(*positions: int) -> Any:
    return torch.tensor(positions)


X, Y, SQUARE = some(3, 4), some(3, 4), some(4, 4)
IMAGE, FILTER = some(1, 2, 4, 4), some(2, 1, 3, 3)
EXACT: dict[str, Callable[[], Any]] = {
    "pointwise": lambda: torch.exp(X * Y[:1] + X.sigmoid()) / Y,
    "scalars": lambda: 2.0 / (X * 3.0 - 0.5).tanh() ** 2.0,
    "where": lambda: torch.where(X > 1, X, Y[0]).masked_fill(Y > 1, 0.5),
    "views": lambda: X.t().unsqueeze(0).expand(2, 4, 3).reshape(8, 3)[1:6:2, 1],
    "pieces": lambda: torch.cat([*X.split([1, 2]), torch.stack(Y.unbind(0))[1:]]).flip(0).roll(1),
    "padded": lambda: functional.pad(X, (1, 2), value=0.3).tril(),
    "index": lambda: X[at(2, 0), at(1, 3)] + X[1, at(0, 2)] + X[:, at(0, 3)][:2, 1],
    "gather": lambda: X.gather(1, at(1, 0, 2).reshape(3, 1)).index_select(0, at(2, 0)),
    "scatter": lambda: X.scatter(1, at(1, 0, 2).reshape(3, 1), Y[:, :1]),
    "added": lambda: X.index_add(0, at(1, 1), Y[:2]).scatter_add(
        0, at(0, 2).reshape(1, 2), Y[:1, :2]
    ),
    "put": lambda: torch.index_put(X, (at(0, 2), at(1, 1)), Y[0, :2], accumulate=True),
    "reduced": lambda: X.sum(0) + X.mean(0, keepdim=True) + X.prod(0) + X.var(0),
    "softmax": lambda: X.softmax(1) + X.log_softmax(0) + X.logsumexp(1, keepdim=True),
    "matrices": lambda: (X @ SQUARE) + torch.addmm(Y, X, SQUARE, beta=0.5, alpha=2.0),
    "batches": lambda: torch.baddbmm(some(2, 3, 3), some(2, 3, 4), some(2, 4, 3)) @ some(2, 3, 1),
    "vectors": lambda: SQUARE @ X[0] + X[1].dot(Y[0]) + functional.linear(X[0], SQUARE, X[1]),
    "convolution": lambda: functional.conv2d(
        IMAGE, FILTER, some(2), stride=2, padding=1, dilation=1, groups=2
    ),
    "transposed": lambda: functional.conv_transpose2d(IMAGE, FILTER, stride=2, padding=1),
    "pooled": lambda: (
        functional.avg_pool2d(IMAGE, 3, 2, 1) + functional.adaptive_avg_pool2d(IMAGE, 2)
    ),
    "layer norm": lambda: functional.layer_norm(X, (4,), Y[0], Y[1]),
    "group norm": lambda: functional.group_norm(IMAGE, 2, some(2), some(2)),
    "batch norm": lambda: functional.batch_norm(
        IMAGE, torch.zeros(2).double(), torch.ones(2).double(), some(2), some(2), training=True
    ),
    "evaluated batch norm": lambda: functional.batch_norm(
        IMAGE, torch.zeros(2).double(), torch.ones(2).double(), some(2), some(2)
    ),
    "attention": lambda: functional.scaled_dot_product_attention(
        some(1, 2, 3, 4), some(1, 2, 3, 4), some(1, 2, 3, 4), is_causal=True
    ),
    "losses": lambda: (
        functional.cross_entropy(X, at(0, 3, 1))
        + functional.mse_loss(X, Y)
        + functional.nll_loss(X, at(0, 3, 1), reduction="none").sum()
    ),
    "embedding": lambda: functional.embedding(at(2, 0, 2), X),
    "interpolated": lambda: functional.interpolate(IMAGE, scale_factor=2, mode="bilinear"),
    "in place": lambda: (X * 1).add_(Y).mul_(2).clamp_(min=-9).copy_(Y[0]),
    "lists": lambda: torch._foreach_add(
        torch._foreach_mul([X * 1, Y * 1], 2.0), [Y * 1, X * 1], alpha=0.5
    )[1],
    "cumulative": lambda: X.cumsum(1) + X.cumprod(0),
}
"""Differentiable functions whose elements all matter: what is told is neither too much nor too
little, forward and backward."""
WINNERS: dict[str, Callable[[], Any]] = {
    "largest": lambda: X.amax(1) + Y.amin(1) + X.max(1)[0] + X.max(),
    "pools": lambda: functional.max_pool2d(IMAGE, 2) + functional.adaptive_max_pool2d(IMAGE, 2),
    "sorted": lambda: X.sort(1)[0][:, :2] + X.topk(2, 1)[0] + X.kthvalue(2, 1)[0].unsqueeze(1),
    "prelu": lambda: functional.prelu(X - 1, some(1)),
}
"""The same, but what wins matters alone."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small operators, very many times."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def differentiated(function: Callable[[], Any]) -> None:
    result = function()
    result.backward(some(*result.shape).detach() if result.dim() else torch.tensor(0.7).double())


Asked = tuple[str, RecordedCall, list[Array], list[Array], int, int]


def elements(path: Path) -> Iterator[Asked]:
    """Some elements of each output of each node with its recorded operands."""
    with Recording.open(path) as recording:
        replay = Replay(recording)
        for execution in recording.executions(0, replay.last):
            node = replay.book.node(execution.node, execution.seq)
            if node.is_leaf or not node.inputs or node.op in ("item", "updated_view"):
                continue
            arrays = [replay.recorded(source) for source in replay.sources(execution)]
            outs = [replay.recorded(ValueSource(value, execution)) for value in node.outputs]
            known = [array for array in arrays if array is not None]
            results = [np.empty(0) if array is None else array for array in outs]
            assert len(known) == len(arrays)
            call = replay.book.call(execution)
            for port, result in enumerate(results):
                if result.dtype.kind == "f" and result.size:
                    some_places = {0, result.size // 2, result.size - 1}
                    if sum(array.size for array in known) > MOST:
                        some_places = {result.size // 2}
                    for position in sorted(some_places):
                        yield node.native, call, known, results, port, position


def told_by(call: RecordedCall, asked: Asked) -> ElementDependence:
    """What is told, with ports counted among the arrays."""
    _, _, arrays, results, port, position = asked
    told = call.reads(call.operands(arrays), results, port, position)
    ports = [number for number, arg in enumerate(call.args) if isinstance(arg, int)]
    return told._replace(
        reads=tuple(
            read._replace(port=ports.index(read.port)) for read in told.reads if read.port in ports
        )
    )


# Which elements these read depends on the numbers: a factor of zero, a comparison, a single key.
LOOSE = (
    "aten::clamp", "aten::gt", "aten::threshold", "aten::eq", "aten::ge", "aten::div", "aten::mul",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
)  # fmt: skip
MOST = 40
"""Elements of inputs up to which more than one element of an output is compared."""


@pytest.mark.parametrize("name", [*EXACT, *WINNERS])
def test_elements_that_matter_are_reported_and_no_others(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.nscope"
    function = EXACT.get(name) or WINNERS[name]
    recorded(path, lambda: differentiated(function), level="values")
    count = 0
    for asked in itertools.islice(elements(path), 150):
        native, call, arrays, _, port, position = asked
        told = told_by(call, asked)
        assert told.note == "", f"{native}: {told.note}"
        small = name in WINNERS
        comparison = compared(native, call.attrs, arrays, port, position, told, small=small)
        assert not comparison.missing, f"{native} {call.attrs} {port} {position}"
        assert not comparison.needless or native.startswith(LOOSE), (
            f"{native} {call.attrs} {position}"
        )
        count += 1
    assert count >= 3


def test_terms_of_a_product(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, lambda: functional.conv2d(IMAGE, FILTER, groups=2), level="values")
    with Recording.open(path) as recording:
        node = nodes_of(recording)["convolution"]
        cause = why(recording, node.outputs[0], (0, 1, 1, 1)).root
        assert cause.words.startswith("convolution of 9 terms")
        result = Replay(recording).value(node.outputs[0]).array
        terms = [operand.term for operand in cause.operands if operand.port == 0]
        assert set(terms) <= {
            float(x) * float(w)
            for x in IMAGE.detach().reshape(-1)
            for w in FILTER.detach().reshape(-1)
        }
        assert result[0, 1, 1, 1] > max(terms)


def test_attention_with_closed_gates(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, closed_gates, level="values")
    with Recording.open(path) as recording:
        by_op = nodes_of(recording)
        updates = [row.node for row in recording.nodes() if row.node.phase == "optimizer"]
        written = [node for node in updates if node.writes and node.op == "addcdiv"]
        for node in (by_op["nll_loss"], written[-1]):
            answer = why(recording, node.outputs[0], "nan")
            assert answer.culprit.name == "Gated/log"
            assert answer.culprit.at == (1, 3, 0)
            assert answer.culprit.line == "bias = torch.log(gates)"
            assert "log of 0" in answer.culprit.words


def test_half_precision_that_overflows(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, half_overflow, level="values")
    with Recording.open(path) as recording:
        by_op = nodes_of(recording)
        updates = [row.node for row in recording.nodes() if row.node.phase == "optimizer"]
        written = [node for node in updates if node.writes]
        for node in (by_op["power"], written[-1]):
            answer = why(recording, node.outputs[0], "nan")
            assert answer.culprit.op == "multiply"
            assert answer.culprit.at == (1, 2)
            assert answer.culprit.line == "square = x * x"
