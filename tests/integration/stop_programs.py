"""Random programs of the engine, as data: scopes, compiled kernels, steps, gradients, failing ops.

Invariant: a program gives the same results and node names in every run.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import strategies as st

import nodescope as ns
from nodescope.passes import fuse

Statement = tuple[Any, ...]

SCOPES = ("a", "b", "c")

_OPS = [("tanh",), ("mul",), ("add",), ("exp",), ("log",), ("leaf",)]
_ops = st.sampled_from(_OPS)
_plain = st.sampled_from([*_OPS, *_OPS, ("fail",)])
_bodies = st.recursive(
    st.lists(_plain, min_size=1, max_size=4),
    lambda inner: st.lists(
        st.one_of(
            _plain,
            st.tuples(st.just("scope"), st.sampled_from(SCOPES), inner),
            st.tuples(st.just("repeat"), st.integers(1, 3), inner),
        ),
        min_size=1, max_size=4,
    ),
    max_leaves=8,
)  # fmt: skip
# Compiled functions are not called in loops, so the names of their nodes are unique.
_compiled = st.tuples(st.just("compiled"), st.integers(0, 1))
programs = st.fixed_dictionaries(
    {
        "before": st.lists(_ops, max_size=2),
        "body": _bodies,
        "calls": st.lists(_compiled, max_size=2),
        "steps": st.integers(1, 3),
        "backward": st.sampled_from([True, True, False]),
        "optimizer": st.booleans(),
    }
)


def chain(x: Any) -> Any:
    return np.tanh(np.exp(x * 0.1) + 1.0) * 2.0


def nested(x: Any) -> Any:
    h = np.tanh(x)
    with ns.name_scope("inner"):
        return np.sum(np.exp(h * 0.5) * x) + x


class Running:
    """A program while it runs.

    Args:
        program: As `programs` gives it.
    """

    def __init__(self, program: dict[str, Any]) -> None:
        self.program = program
        self.a = ns.parameter(np.array([0.5, -1.0, 2.0]), name="a")
        self.b = ns.parameter(np.array([0.1, 0.2, -0.3]), name="b")
        self.functions = [ns.compile(chain), ns.compile(nested)]

    def run(self) -> bytes:
        """Run the program, and return all that it computed."""
        program = self.program
        results: list[Any] = []
        optimizer = ns.optim.SGD([self.a, self.b], lr=0.1)
        # Kernels pay off only for large arrays; here they are forced.
        with np.errstate(all="ignore"), patch.object(fuse, "TILED", 1):
            x = self._do(ns.tensor(np.array([1.0, 2.0, 3.0])), program["before"])
            for k in ns.steps(range(program["steps"])):
                y = self._do(x.detach() * float(k + 1), program["body"])
                for number, (_, choice) in enumerate(program["calls"]):
                    with ns.name_scope(f"call{number}"):
                        y = self.functions[choice](y)
                loss = np.sum(y * self.a)
                if program["backward"]:
                    loss.backward()
                    if program["optimizer"]:
                        optimizer.step()
                    results += [tensor.grad.numpy().copy() for tensor in (self.a, self.b)
                              if tensor.grad is not None]  # fmt: skip
                    optimizer.zero_grad()
                results.append(np.array(loss.numpy()))
        results += [self.a.numpy(), self.b.numpy()]
        return b"".join(array.tobytes() for array in results)

    def run_body(self) -> bytes:
        """Compute one step, next to other threads, without the optimizer."""
        program = self.program
        with np.errstate(all="ignore"):
            y = self._do(ns.tensor(np.array([1.0, 2.0, 3.0])), program["body"])
            loss = np.sum(y * self.a)
            if program["backward"]:
                loss.backward()
            results = [
                loss,
                *(tensor.grad for tensor in (self.a, self.b) if tensor.grad is not None),
            ]
        return b"".join(tensor.numpy().tobytes() for tensor in results)

    def _do(self, x: Any, body: list[Statement]) -> Any:
        for kind, *rest in body:
            match kind:
                case "tanh":
                    x = np.tanh(x)
                case "mul":
                    x = x * self.a
                case "add":
                    x = x + self.b
                case "exp":
                    x = np.exp(x * 0.1)
                case "log":
                    x = np.log(x)
                case "leaf":
                    x = x + ns.tensor(np.ones(3))
                case "fail":
                    try:
                        x @ ns.tensor(np.ones((4, 4)))
                    except ValueError:
                        pass
                case "scope":
                    name, inner = rest
                    with ns.name_scope(name):
                        x = self._do(x, inner)
                case "repeat":
                    times, inner = rest
                    for _ in range(times):
                        x = self._do(x, inner)
        return x
