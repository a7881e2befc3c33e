"""Typical mistakes with tensors and their gradients.

Each message says what is wrong, where in the user's own file, and how to fix it.
"""

from __future__ import annotations

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import (
    BoundsError,
    DtypeError,
    GradientError,
    IndexTypeError,
    MissingError,
    ShapeError,
    UnsupportedError,
)
from tests.core.engine.mistakes import Mistake, check

MISTAKES = [
    Mistake(
        "matmul",
        """
x = ns.tensor(np.ones((2, 3)))
y = x @ np.ones((4, 5))
""",
        ShapeError, 2,
        "matmul: inner dimensions differ: (2, 3) @ (4, 5)",
        "the last dimension of the left operand is 3: the right one needs 3 rows, not 4",
    ),
    Mistake(
        "broadcast",
        """
x = ns.tensor(np.ones((2, 3)))
y = x + np.ones(2)
""",
        ShapeError, 2,
        "add: shapes (2, 3) and (2,) do not broadcast",
        "align them from the right: each pair of sizes must be equal or contain a 1",
    ),
    Mistake(
        "concatenate",
        """
x = ns.tensor(np.ones((2, 3)))
y = np.concatenate([x, np.ones((2, 4))])
""",
        ShapeError, 2,
        "concatenate: (2, 4) does not fit (2, 3) along axis 0",
        "all dimensions but that axis must agree",
    ),
    Mistake(
        "reshape",
        """
x = ns.tensor(np.ones((2, 3)))
y = x.reshape(4, 2)
""",
        ShapeError, 2,
        "reshape: (2, 3) has 6 elements and does not fit (4, 2)",
        "the sizes must multiply to that number; one of them may be -1, to be inferred",
    ),
    Mistake(
        "axis",
        """
x = ns.tensor(np.ones((2, 3)))
y = x.sum(axis=2)
""",
        BoundsError, 2,
        "sum: axis 2 is out of range for 2 dimensions",
        "axes go from -2 to 1",
    ),
    Mistake(
        "index",
        """
x = ns.tensor(np.ones((2, 3)))
y = x[2]
""",
        BoundsError, 2,
        "getitem: index 2 is out of bounds for axis 0 with size 2",
        "count from 0, or from -1 for the last; slices may extend past the end",
    ),
    Mistake(
        "index by float",
        """
x = ns.tensor(np.ones((2, 3)))
y = x[1.0]
""",
        IndexTypeError, 2,
        "a tensor cannot be indexed by float",
        "use ints, slices, None, ... or arrays of ints or bools",
    ),
    Mistake(
        "index by float tensor",
        """
x = ns.tensor(np.ones((2, 3)))
y = x[ns.tensor([0.0])]
""",
        IndexTypeError, 2,
        "getitem: an index array must be of integers, not float64",
        "convert it with .astype('int64'), or compare to select by a mask",
    ),
    Mistake(
        "bitwise on floats",
        """
x = ns.tensor(np.ones(3))
y = (x > 0) & x
""",
        DtypeError, 2,
        "bitwise_and: not defined for bool, float64",
        "convert with .astype",
    ),
    Mistake(
        "int parameter",
        """
w = ns.parameter([1, 2, 3], name="w")
""",
        DtypeError, 1,
        "a tensor of int64 cannot require a gradient",
        "convert it to a floating-point dtype",
    ),
    Mistake(
        "ragged",
        """
x = ns.tensor([[1, 2], [3]])
""",
        ShapeError, 1,
        "nested lists of different lengths cannot form a tensor",
        "pad them to one length, or make one tensor of each",
    ),
    Mistake(
        "strings",
        """
x = ns.tensor(["cat", "dog"])
""",
        DtypeError, 1,
        "a tensor holds numbers or booleans, not text",
        "encode text and objects as numbers first, such as class indices",
    ),
    Mistake(
        "backward on non-scalar",
        """
w = ns.parameter(np.ones(3), name="w")
(w * 2).backward()
""",
        GradientError, 2,
        "backward: a tensor of shape (3,) needs an initial gradient",
        "reduce it to a scalar, or pass gradient=",
    ),
    Mistake(
        "backward without history",
        """
x = ns.tensor(np.ones(3))
x.sum().backward()
""",
        GradientError, 2,
        "backward: this tensor was not computed from one that requires a gradient",
        "make parameters with nodescope.parameter or tensor(..., requires_grad=True), and "
        "compute outside no_grad",
    ),
    Mistake(
        "backward twice",
        """
w = ns.parameter(np.ones(3), name="w")
loss = (w * w).sum()
loss.backward()
loss.backward()
""",
        GradientError, 4,
        "backward: part of this tape was already used and freed",
        "call the first backward with retain_graph=True, or compute the loss again",
    ),
    Mistake(
        "grad of an int",
        """
f = ns.grad(lambda x: (x * x).sum())
f(np.arange(3))
""",
        GradientError, 2,
        "grad: cannot differentiate with respect to an argument of int64",
        "convert it to floating point, or select the other arguments with argnums",
    ),
    Mistake(
        "grad of no scalar",
        """
f = ns.grad(lambda x: x * x)
f(np.ones(3))
""",
        GradientError, 2,
        "grad: the function must return a scalar tensor, not shape (3,)",
        "reduce it, as with .sum()",
    ),
    Mistake(
        "in-place on a leaf",
        """
w = ns.parameter(np.ones(3), name="w")
w += 1
""",
        GradientError, 2,
        "x += y would write to the leaf 'w', which requires a gradient",
        "make a new tensor, as in x = x + y; or use nodescope.assign, or write inside `with "
        "nodescope.no_grad():`",
    ),
    Mistake(
        "in-place on needed leaf",
        """
w = ns.parameter(np.ones(3), name="w")
loss = (w * w).sum()
with ns.no_grad():
    w -= 0.1
loss.backward()
""",
        GradientError, 5,
        "backward: the leaf 'w' has changed since multiply used it, but its gradient needs the "
        "old elements",
        "call backward before changing the leaf (by an optimizer, assign or in place), or "
        "compute the loss again",
    ),
    Mistake(
        "in-place dtype",
        """
x = ns.tensor([1, 2, 3])
x += 0.5
""",
        DtypeError, 2,
        "x += y: a tensor of int64 cannot hold float64",
        "make a new tensor, as in x = x + y, or convert: x = x.astype('float64')",
    ),
    Mistake(
        "in-place shape",
        """
x = ns.tensor(np.ones(3))
x += np.ones((2, 3))
""",
        ShapeError, 2,
        "x += y: a result of shape (2, 3) does not fit into shape (3,)",
        "make a new tensor, as in x = x + y",
    ),
    Mistake(
        "in-place read-only",
        """
x = np.broadcast_to(ns.tensor(np.ones(3)), (2, 3))
x[0] = 1
""",
        UnsupportedError, 2,
        "x[i] = y: the tensor is a read-only view",
        "copy it: x = x.copy()",
    ),
    Mistake(
        "set too much",
        """
x = ns.tensor(np.ones((2, 3)))
x[0] = np.ones(2)
""",
        ShapeError, 2,
        "index_set: a value of shape (2,) does not fit (3,), which the index selects",
        "the value must have that shape, or broadcast to it",
    ),
    Mistake(
        "torch method",
        """
x = ns.tensor(np.ones(3))
y = x.unsqueeze(0)
""",
        MissingError, 2,
        "a tensor has no unsqueeze",
        "use np.expand_dims(x, axis)",
    ),
    Mistake(
        "asarray",
        """
x = ns.tensor(np.ones(3))
y = np.asarray(x)
""",
        UnsupportedError, 2,
        "a tensor is not converted to an array implicitly: it would leave the graph",
        "use x.numpy() to leave the graph, gradients included; np.stack, np.concatenate and "
        "np.column_stack join tensors, np.broadcast_to repeats one, and nodescope.tensor(array)[x] "
        "indexes by one",
    ),
    Mistake(
        "out array",
        """
x = ns.tensor(np.ones(3))
y = np.zeros(3)
np.exp(x, out=y)
""",
        UnsupportedError, 3,
        "np.exp with out= would take the result out of the graph",
        "use the function's result, or let out= be a tensor",
    ),
    Mistake(
        "truth",
        """
x = ns.tensor(np.ones(3))
if x > 0:
    pass
""",
        ShapeError, 2,
        "bool: the value of a tensor with 3 elements is ambiguous",
        "reduce it first, as with .any(), .all() or .sum()",
    ),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_mistakes_are_explained(mistake: Mistake) -> None:
    check(mistake)


@pytest.mark.parametrize(
    ("left", "right", "hint"),
    [
        ((2, 3), (4, 3), "transpose the right operand?"),
        ((4, 5), (3, 4), "swap the operands?"),
        ((3, 4), (3, 2), "transpose the left operand?"),
        ((64, 10), (12, 16), "of the left operand is 10: the right one needs 10 rows, not 12"),
        ((64, 10), (12,), "of the left operand is 10: the right one needs 10 elements, not 12"),
    ],
)
def test_what_would_make_two_matrices_fit(
    left: tuple[int, ...], right: tuple[int, ...], hint: str
) -> None:
    with pytest.raises(ShapeError) as raised:
        ns.tensor(np.ones(left)) @ np.ones(right)
    assert hint in raised.value.hint
