"""Fetching: at a stop, only the requested part of another library's array is fetched."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope.arrays import register
from nodescope.arrays.lazy import LazyArray
from nodescope.cli.terminal_commands import Console
from nodescope.dap.inspection import Inspection
from nodescope.dap.variables import Variables
from nodescope.debug.expressions.builtins import LazyScene, Scene
from nodescope.debug.expressions.compiler import compile_condition, compile_expression
from nodescope.errors import ConditionError
from tests.adapters.cases import Case
from tests.adapters.driving import Debugged, debugged
from tests.adapters.foreign import adapter as foreign
from tests.adapters.foreign import library as lib
from tests.parts import in_parts

LARGE = np.arange(400.0 * 300).reshape(400, 300)
BENT = np.tanh(LARGE)
ELEMENT = 8


def large() -> Any:
    """One operation on a large array."""
    return lib.quash(lib.warp(lib.distant(LARGE))).fetch()


class Fetched:
    """The bytes and statistics fetched since it was made."""

    def __init__(self) -> None:
        self._before = lib.Process.fetched_bytes, lib.Process.described

    @property
    def elements(self) -> int:
        return (lib.Process.fetched_bytes - self._before[0]) // ELEMENT

    @property
    def statistics(self) -> int:
        return lib.Process.described - self._before[1]


@contextmanager
def at_large(path: Path, *breakpoints: str, **options: Any) -> Iterator[Debugged]:
    """A program stopped at the operation on the large array; its result is checked at the end."""
    options = {"level": "timing", **options}
    with debugged(path, large, *(breakpoints or ("op:warp",)), **options) as seen:
        yield seen
    np.testing.assert_allclose(seen.result, BENT.mean())


@pytest.mark.parametrize(
    ("condition", "elements", "statistics"),
    [
        ("value[3, 4] > 0", 1, 0),
        ("value[-1, -1] == 1", 1, 0),
        ("inputs[0][1, 2] == 302", 1, 0),
        ("value[2][1] > 0", 300, 0),
        ("shape(value)[0] == 400 and size(inputs[0]) == 120000", 0, 0),
        ("size(inputs) == 1", 0, 0),
        ("max(value) <= 1", 0, 1),
        ("min(value) == 0 and max(value) > 0.5", 0, 1),
        ("not isnan(value).any() and isfinite(value).all()", 0, 1),
        ("count(isinf(value)) == 0", 0, 1),
        ("mean(value) > 0.5", 120_000, 0),
        ("step >= 0", 0, 0),
    ],
)
def test_what_a_condition_fetches(
    distant: Case, condition: str, elements: int, statistics: int, tmp_path: Path
) -> None:
    fetched = Fetched()
    with at_large(tmp_path / "run.nscope", f"op:warp if {condition}") as seen:
        assert seen.stop() is not None, condition
        assert fetched.elements == elements
        assert fetched.statistics == statistics


@pytest.mark.parametrize("command", ["info", "p", "p value", "p inputs[0]", "p max(value)"])
def test_what_the_terminal_shows_by_statistics(distant: Case, command: str, tmp_path: Path) -> None:
    with at_large(tmp_path / "run.nscope") as seen:
        assert seen.stop() is not None
        said: list[str] = []
        fetched = Fetched()
        Console(seen.controller, said.append).run(command)
        assert fetched.elements == 0
        assert 1 <= fetched.statistics <= 2
        assert "1" in said[-1]


@pytest.mark.parametrize(
    ("command", "elements", "shown"),
    [
        ("p value[0, :3]", 3, "[0, 0.761594, 0.964028]"),
        ("p value[3, 4]", 1, "1"),
        ("p inputs[0][1, ::100]", 201, "[300, 400, 500]"),
        ("p value.shape", 0, "(400, 300)"),
        ("p value.dtype", 0, "float64"),
        ("p shape(inputs[0])", 0, "(400, 300)"),
        ("values", 36, "[0.       0.761594 0.964028 ... 1.       1.       1.      ]"),
    ],
)
def test_what_the_terminal_fetches(
    distant: Case, command: str, elements: int, shown: str, tmp_path: Path
) -> None:
    with at_large(tmp_path / "run.nscope") as seen:
        assert seen.stop() is not None
        said: list[str] = []
        fetched = Fetched()
        Console(seen.controller, said.append).run(command)
        assert fetched.elements == elements
        assert any(shown in line for line in said), said


def test_values_are_printed_as_numpy_prints_them(distant: Case, tmp_path: Path) -> None:
    with at_large(tmp_path / "run.nscope") as seen:
        assert seen.stop() is not None
        said: list[str] = []
        Console(seen.controller, said.append).run("values")
    with np.printoptions(threshold=1000, edgeitems=3, linewidth=100, precision=6):
        assert "\n".join(said) == np.array2string(BENT)


def test_a_stop_of_the_terminal_fetches_statistics(distant: Case, tmp_path: Path) -> None:
    with at_large(tmp_path / "run.nscope") as seen:
        stop = seen.stop()
        assert stop is not None
        fetched = Fetched()
        Console(seen.controller, lambda line: None).stopped(stop)
        assert (fetched.elements, fetched.statistics) == (0, 1)


def test_variables_of_an_editor_come_in_pages(distant: Case, tmp_path: Path) -> None:
    with at_large(tmp_path / "run.nscope") as seen:
        assert seen.stop() is not None
        variables = Variables(seen.controller)
        fetched = Fetched()
        _, outputs, *_ = variables.scopes(seen.controller.frames()[0])
        (value,) = variables.variables(outputs["variablesReference"], 0, 0, "")
        assert value["indexedVariables"] == 400
        assert fetched.elements == 0
        rows = variables.variables(value["variablesReference"], 10, 5, "indexed")
        assert [row["name"] for row in rows] == [f"[{place}]" for place in range(10, 15)]
        assert fetched.elements == 5 * 300
        fetched = Fetched()
        page = variables.variables(rows[0]["variablesReference"], 100, 20, "indexed")
        assert [element["value"] for element in page] == ["1"] * 20
        assert fetched.elements == 20
        fetched = Fetched()
        rows = variables.variables(value["variablesReference"], 0, 0, "indexed")
        assert (len(rows), rows[0]["value"]) == (400, "float64 (300,)")
        assert fetched.elements == 0


def test_memory_that_an_editor_reads(distant: Case, tmp_path: Path) -> None:
    with at_large(tmp_path / "run.nscope") as seen:
        assert seen.stop() is not None
        variables = Variables(seen.controller)
        looking = Inspection(seen.controller, variables, lambda line: None)
        unfolded = looking.evaluate({"expression": "inputs[0]", "context": "watch"})
        fetched = Fetched()
        answer = looking.read_memory(
            {"memoryReference": unfolded["memoryReference"], "offset": 8 * 301, "count": 16}
        )
        assert np.frombuffer(base64.b64decode(answer["data"])).tolist() == [301, 302]
        assert fetched.elements == 300


@pytest.mark.parametrize(
    ("edit", "elements"), [("value = 0", 0), ("value[0, 0] = 5", 120_000), ("value *= 2", 120_000)]
)
def test_what_an_edit_fetches(distant: Case, edit: str, elements: int, tmp_path: Path) -> None:
    with debugged(tmp_path / "run.nscope", large, "op:warp", level="timing") as seen:
        assert seen.stop() is not None
        fetched = Fetched()
        seen.controller.edit(edit)
        assert fetched.elements == elements
    assert seen.result != BENT.mean()


def test_an_edit_that_is_refused_fetches_nothing(distant: Case, tmp_path: Path) -> None:
    with at_large(tmp_path / "run.nscope") as seen:
        assert seen.stop() is not None
        fetched = Fetched()
        said: list[str] = []
        Console(seen.controller, said.append).run("set value[400, 0] = 1")
        assert "out of range" in said[0]
        assert fetched.elements == 0


@pytest.mark.parametrize(
    ("rule", "elements", "statistics"),
    [("tensor_overflow", 0, 3), ('condition(condition="value[3, 4] > 2")', 1, 0)],
)
def test_what_a_watch_fetches(
    distant: Case, rule: str, elements: int, statistics: int, tmp_path: Path
) -> None:
    fetched = Fetched()
    watches = [f"{rule} on op:warp -> log"]
    with debugged(tmp_path / "run.nscope", large, watches=watches, level="timing") as seen:
        pass
    assert seen.run.watching is not None
    # The program itself fetches one element at its end.
    assert fetched.elements - 1 == elements
    assert fetched.statistics <= statistics


EXPRESSIONS = [
    "value", "value[1]", "value[1, 2]", "value[-1][0]", "inputs[0]", "inputs[1][2]", "inputs",
    "min(value)", "max(value)", "min(inputs[0])", "isnan(value)", "any(isnan(value))",
    "all(isfinite(value))", "count(isinf(value))", "isnan(value)[0]", "isnan(value)[0, 1]",
    "value[0] > 1", "max(value) > 0.5", "shape(value)", "shape(value)[0]", "size(inputs)",
    "size(value[0])", "-value", "value + inputs[0]", "mean(value) < 3", "any(value > 2)",
    "max(isnan(value))", "abs(value)[0]", "inputs[step]", "inputs[5]", "value[9, 9]", "value.std()",
    "quantile(value, 0.5)", "grad", "max(grad)", "grad[0]",
]  # fmt: skip
ARRAYS = {
    "plain": [[1.0, -2.5], [0.0, 7.0]],
    "nan": [[np.nan, 1.0], [2.0, -1.0]],
    "inf": [[np.inf, 1.0], [-np.inf, -1.0]],
    "both": [[np.inf, np.nan], [0.0, -1.0]],
    "all nan": [[np.nan, np.nan]],
    "empty": np.zeros((0, 2)),
}


@in_parts(4)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_gives_the_same_for_fetched_and_whole_arrays(
    distant: Case, text: str, name: str
) -> None:
    """An expression gives the same value, or the same error, for fetched and unfetched arrays."""
    array = np.array(ARRAYS[name])
    there = lib.distant(array)
    register({lib.Distant: foreign.DistantArrays()})
    expression = compile_expression(text)

    def evaluate(scene: Scene) -> Any:
        try:
            result = expression(scene)
        except ConditionError as error:
            return str(error)
        if isinstance(result, tuple):
            return tuple(map(np.asarray, result))
        return np.asarray(result)

    here = evaluate(Scene(array, (array, array), 1, "n", grad=lambda: array))
    lazy = evaluate(LazyScene(there, (there, there), 1, "n", grad=lambda: LazyArray(there)))
    if isinstance(here, str):
        assert lazy == here
    else:
        np.testing.assert_equal(lazy, here)
        if isinstance(here, np.ndarray):
            assert lazy.dtype == here.dtype


def test_a_condition_on_a_lazy_scene_is_a_truth_value(distant: Case) -> None:
    register({lib.Distant: foreign.DistantArrays()})
    scene = LazyScene(lib.distant([1.0, 2.0]), ())
    assert compile_condition("value[1] == 2")(scene) is True
    assert compile_condition("min(value) > 1")(scene) is False
    with pytest.raises(ConditionError, match="use any"):
        compile_condition("value > 1")(scene)
