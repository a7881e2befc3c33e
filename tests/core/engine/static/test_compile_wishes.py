"""What `nodescope.compile` is asked for: back ends, passes, rules, a limit of memory.

Invariant: what is wrong is said when a function is decorated, in one line with what would be right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import UsageError


def doubled(x: Any) -> Any:
    return x * 2.0


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"backend": "nump"}, r"compile: no back end named 'nump'.* did you mean 'numpy'\?"),
    ({"backend": ""}, r"no back end named ''.* one of .*'numpy'.*\"auto\""),
    ({"backend": 3}, r"a back end is a name, not 3 .*one of"),
    ({"backend": ["c"]}, r"a back end is a name, not \['c'\]"),
    ({"passes": "fuze"}, r"compile: no pass named 'fuze'.* did you mean 'fuse'\?"),
    ({"passes": "everything"}, r"no pass named 'everything'.* `nodescope passes` lists them"),
    ({"passes": ("fuse", "-cse")}, "compile: passes: names .* are mixed .*test_compile_wishes.py"),
    ({"passes": 3}, "compile: passes takes names, not 3 .*lists them"),
    ({"passes": (None,)}, "passes takes names, not None"),
    ({"unsafe": "x"}, r"no unsafe rule named 'x'.*`nodescope passes` lists them"),
    (
        {"unsafe": "multiply_one"},
        "no unsafe rule named 'multiply_one'.* did you mean 'multiply_zero'",
    ),
    ({"unsafe": True}, "compile: unsafe takes names, not True .*lists them"),
    ({"memory_bytes": 0}, "must be a positive number of bytes, not 0 .*None for no limit"),
    ({"memory_bytes": 1.5}, "must be a positive number of bytes, not 1.5"),
    ({"memory_bytes": "1M"}, "must be a positive number of bytes, not '1M'"),
    ({"memory_bytes": True}, "must be a positive number of bytes, not True"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=[repr(options) for options, _ in WRONG])
def test_what_is_wrong_is_reported_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ns.compile(doubled, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"passes": "fuse, cse"},
        {"passes": ["default"]},
        {"passes": iter(("fuse", "own"))},
        {"passes": "-fuse,-cse"},
        {"unsafe": "add_zero, divide_any"},
        {"memory_bytes": np.int64(1 << 20)},
    ],
    ids=["text", "list", "iterator", "without", "rules", "number"],
)
def test_lists_of_names_may_be_text_or_any_iterable(options: dict[str, Any]) -> None:
    f = ns.compile(doubled, **options)
    for _ in range(2):
        assert f(ns.tensor(np.ones(3))).tolist() == [2.0, 2.0, 2.0]


def test_the_environment_is_named_for_a_wrong_back_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NODESCOPE_BACKEND", "AUTO")
    with pytest.raises(UsageError, match="NODESCOPE_BACKEND: no back end named 'AUTO'"):
        ns.compile(doubled)(ns.tensor(np.ones(3)))


def test_a_fault_while_it_runs_is_reported_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f = ns.compile(lambda x: np.exp(x) * 3.0, backend="numpy")
    x = ns.tensor(np.ones(3))
    expected = f(x).tolist()

    def fail(self: Any, feeds: Any) -> Any:
        raise TypeError("a fault of the back end")

    monkeypatch.setattr("nodescope.engine.codegen.numpy_backend.runner.NumpyRunner.run", fail)
    with pytest.warns(UserWarning, match="runs as it was traced, .* a fault of the back end"):
        assert f(x).tolist() == expected
    assert f(x).tolist() == expected
    assert "a fault of the back end" in str(f.explain())
