"""Typical mistakes: elements, arguments, layers and optimizers.

Each message says what is wrong, where in the user's own file, and how to fix it.
"""

from __future__ import annotations

import pytest

from nodescope.errors import (
    BoundsError,
    GradientError,
    ShapeError,
    UnsupportedError,
    UsageError,
)
from nodescope.ops.matrices import MatrixError
from tests.core.engine.mistakes import Mistake, check

MISTAKES = [
    Mistake(
        "float",
        """
x = ns.tensor(np.ones(3))
y = float(x)
""",
        ShapeError, 2,
        "float: the value of a tensor with 3 elements is ambiguous",
        "reduce it first, as with .any(), .all() or .sum()",
    ),
    Mistake(
        "len",
        """
x = ns.tensor(1.0)
n = len(x)
""",
        ShapeError, 2,
        "len: a scalar tensor has no length",
        "see .shape and .size",
    ),
    Mistake(
        "item",
        """
x = ns.tensor(np.ones(3))
y = x.item()
""",
        ShapeError, 2,
        "item: a tensor of shape (3,) has 3 elements, not one",
        "index or reduce it first",
    ),
    Mistake(
        "index array",
        """
x = ns.tensor(np.ones((2, 3)))
y = x[ns.tensor([0, 5])]
""",
        BoundsError, 2,
        "getitem: index 5 is out of bounds for axis 0 with size 2",
        "look at the elements of the index array; np.clip keeps them inside",
    ),
    Mistake(
        "index array of a compiled function",
        """
def f(x, at):
    return x[at] * 2
run = ns.compile(f)
run(np.ones((2, 3)), np.array([0, 1]))
run(np.ones((2, 3)), np.array([0, 5]))
""",
        BoundsError, 2,
        "getitem: index 5 is out of bounds for axis 0 with size 2",
        "look at the elements of the index array; np.clip keeps them inside",
    ),
    Mistake(
        "index array of a session",
        """
with ns.Graph().as_default() as g:
    at = ns.placeholder(np.int64, (2,), name="at")
    y = np.take(ns.constant(np.ones((2, 3))), at, axis=0)
ns.Session(g).run(y, {at: [0, 5]})
""",
        BoundsError, 3,
        "getitem: index 5 is out of bounds for axis 0 with size 2",
        "look at the elements of the index array; np.clip keeps them inside",
    ),
    Mistake(
        "cross entropy label",
        """
logits = ns.tensor(np.ones((2, 3)))
loss = ns.cross_entropy(logits, np.array([0, 3]))
""",
        BoundsError, 2,
        "cross_entropy: labels run from 0 to 3, but there are 3 classes",
        "labels are class indices from 0",
    ),
    Mistake(
        "einsum",
        """
x = ns.tensor(np.ones((2, 3)))
y = np.einsum("ij,jk->ik", x, x)
""",
        ShapeError, 2,
        "einsum: 'j' in 'ij,jk' has size 3 in one operand and 2 in another",
        "a letter must have the same size everywhere",
    ),
    Mistake(
        "singular",
        """
x = ns.tensor(np.zeros((2, 2)))
y = np.linalg.inv(x)
""",
        MatrixError, 2,
        "inv: singular matrix",
        "the matrix has no inverse; add a multiple of the identity, or use pinv or lstsq",
    ),
    Mistake(
        "optimizer on tensor",
        """
x = ns.tensor(np.ones(3))
opt = ns.optim.SGD([x], lr=0.1)
""",
        UsageError, 2,
        "SGD: Tensor is not a parameter",
        "make it with nodescope.parameter, or pass the module",
    ),
    Mistake(
        "negative rate",
        """
w = ns.parameter(np.ones(3), name="w")
opt = ns.optim.SGD([w], lr=-0.1)
""",
        UsageError, 2,
        "SGD: lr must not be negative, got -0.1",
        "steps already go against the gradient",
    ),
    Mistake(
        "empty scope",
        """
with ns.name_scope(""):
    x = ns.tensor(1.0)
""",
        UsageError, 1,
        "name_scope: '' is not a name",
        "use words joined by single slashes, such as 'encoder/layer_0'",
    ),
    Mistake(
        "empty scope, compiled",
        """
@ns.compile
def f(x):
    with ns.name_scope("a/"):
        return np.exp(x)

f(ns.tensor(1.0))
""",
        UsageError, 3,
        "name_scope: 'a/' is not a name",
        "use words joined by single slashes, such as 'encoder/layer_0'",
    ),
    Mistake(
        "assign shape",
        """
w = ns.parameter(np.ones(3), name="w")
ns.assign(w, np.ones(4))
""",
        ShapeError, 2,
        "assign: a parameter of shape (3,) cannot be assigned shape (4,)",
        "reshape the value, or make a new parameter",
    ),
    Mistake(
        "assign to computed",
        """
w = ns.parameter(np.ones(3), name="w")
ns.assign(w * 2, np.ones(3))
""",
        UsageError, 2,
        "assign: only parameters can be assigned to",
        "make a new tensor",
    ),
    Mistake(
        "set shape",
        """
x = ns.tensor(np.ones(6))
x.shape = (2, 3)
""",
        UnsupportedError, 2,
        "a tensor's shape is not set",
        "write x = x.reshape(...)",
    ),
    Mistake(
        "set grad",
        """
w = ns.parameter(np.ones(3), name="w")
w.grad = np.zeros(3)
""",
        UsageError, 2,
        "grad: expected a tensor or None, not ndarray",
        "wrap arrays in nodescope.tensor",
    ),
    Mistake(
        "conv channels",
        """
x = ns.tensor(np.ones((1, 3, 8, 8)))
layer = ns.nn.Conv2d(4, 8, 3, rng=np.random.default_rng(0))
y = layer(x)
""",
        ShapeError, 3,
        "conv2d: 3 input channels, but the weight (8, 4, 3, 3) takes 4",
        "the weight is (output channels, input channels / groups, kernel…)",
    ),
    Mistake(
        "embedding index",
        """
layer = ns.nn.Embedding(10, 4, rng=np.random.default_rng(0))
y = layer(np.array([3, 10]))
""",
        BoundsError, 2,
        "embedding: index 10 at position (1,) is out of range for a table of 10 rows",
        "is the vocabulary smaller than the largest token number plus 1?",
    ),
    Mistake(
        "state_dict",
        """
layer = ns.nn.Linear(3, 2, rng=np.random.default_rng(0))
layer.load_state_dict({"weight": np.ones((3, 2))})
""",
        UsageError, 2,
        "load_state_dict: missing bias",
        "pass strict=False to load the others",
    ),
    Mistake(
        "state_dict shape",
        """
layer = ns.nn.Linear(3, 2, rng=np.random.default_rng(0))
state = layer.state_dict()
state["weight"] = np.ones((5, 5))
layer.load_state_dict(state)
""",
        ShapeError, 4,
        "load_state_dict: weight is (3, 2), not (5, 5)",
        "make the module with the sizes that the state was saved with",
    ),
    Mistake(
        "linear features",
        """
layer = ns.nn.Linear(3, 2, rng=np.random.default_rng(0))
y = layer(np.ones((5, 4)))
""",
        ShapeError, 2,
        "matmul: inner dimensions differ: (5, 4) @ (3, 2)",
        "the last dimension of the left operand is 4: the right one needs 4 rows, not 3",
    ),
    Mistake(
        "view of another dtype",
        """
x = ns.tensor(np.ones(3) + 1j)
part = np.real(x)
x += 1
""",
        UnsupportedError, 3,
        "a tensor of float64 shares memory with the target, of complex128",
        "write to a copy: x = x.copy()",
    ),
    Mistake(
        "no gradient for ints",
        """
w = ns.parameter(np.ones(3), name="w")
(w > 0).sum().backward()
""",
        GradientError, 2,
        "backward: this tensor was not computed from one that requires a gradient",
        "make parameters with nodescope.parameter or tensor(..., requires_grad=True), and "
        "compute outside no_grad",
    ),
    Mistake(
        "wrong gradient shape",
        """
w = ns.parameter(np.ones(3), name="w")
(w * 2).backward(np.ones(4))
""",
        ShapeError, 2,
        "backward: gradient (4,) does not have the tensor's shape (3,)",
        "give one number per element of the tensor",
    ),
    Mistake(
        "set item None",
        """
x = ns.tensor(np.ones(3))
x[0] = None
""",
        UnsupportedError, 2,
        "x[i] = y: cannot take a NoneType",
        "give a tensor, an array or a number",
    ),
    Mistake(
        "split",
        """
x = ns.tensor(np.ones((2, 5)))
np.split(x, 2, axis=1)
""",
        ShapeError, 2,
        "split: 5 elements cannot be split into 2 equal parts",
        "use np.array_split",
    ),
    Mistake(
        "squeeze",
        """
x = ns.tensor(np.ones((2, 5)))
np.squeeze(x, axis=0)
""",
        ShapeError, 2,
        "squeeze: axis 0 of (2, 5) is not of size 1",
        "only axes of size 1 can be removed; index to select one of several elements",
    ),
    Mistake(
        "transpose",
        """
x = ns.tensor(np.ones((2, 5)))
x.transpose(0, 2)
""",
        BoundsError, 2,
        "transpose: axis 2 is out of range for 2 dimensions",
        "axes go from -2 to 1",
    ),
    Mistake(
        "stack",
        """
x = ns.tensor(np.ones((2, 5)))
np.stack([x, x[0]])
""",
        ShapeError, 2,
        "stack: shapes differ: (2, 5) and (5,)",
        "np.concatenate joins along an existing dimension",
    ),
    Mistake(
        "kernel too large",
        """
x = ns.tensor(np.ones((1, 1, 2, 2), np.float32))
ns.nn.Conv2d(1, 1, 3, rng=np.random.default_rng(0))(x)
""",
        ShapeError, 2,
        "conv2d: a kernel of 3 does not fit into 2 elements padded by 0 and 0",
        "use a smaller kernel or more padding",
    ),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_mistakes_are_explained(mistake: Mistake) -> None:
    check(mistake)
