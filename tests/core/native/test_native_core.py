"""The native core against the Python code, which is its oracle; and what happens without it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nodescope import native
from nodescope.record.batch_summary import summary_rows
from nodescope.record.schema import summary_row
from nodescope.record.summary import BINS, TensorSummary, summarise
from tests.depth import examples

ROOT = Path(__file__).resolve().parents[3]
DTYPES = ["?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d"]


@pytest.fixture(autouse=True)
def _core() -> None:
    assert native.in_use(), native.STATE


def in_python(array: np.ndarray[Any, Any], bins: int = BINS) -> TensorSummary:
    """The summary as the Python code computes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "_core", None)
        return summarise(array, bins=bins)


def check(array: np.ndarray[Any, Any], bins: int = BINS) -> None:
    before = array.tobytes()
    statistics = native.statistics(array, bins)
    expected = in_python(array, bins)
    assert array.tobytes() == before
    if statistics is None:
        finite = [abs(x) for x in (expected.min, expected.max) if x]
        assert not array.size or max(finite) >= 2.0**300 or max(finite) < 2.0**-300
        return
    result = TensorSummary(expected.spec, array.nbytes, *statistics)
    for exact in ("min", "max", "nan_count", "inf_count", "zero_count", "histogram", "preview"):
        # Compare text: a preview may hold NaN, and zeros have signs.
        assert repr(getattr(result, exact)) == repr(getattr(expected, exact)), exact
    if result.min is None:
        return
    largest = max(abs(result.min), abs(expected.max or 0.0))
    for moment in ("mean", "std", "norm"):
        number, expected_number = getattr(result, moment), getattr(expected, moment)
        # Up to some thousand float64 are added in another order.
        assert number == pytest.approx(expected_number, rel=1e-12, abs=1e-12 * largest)


@given(
    st.sampled_from(DTYPES).flatmap(
        lambda kind: hnp.arrays(kind, hnp.array_shapes(max_dims=4, max_side=9))
    ),
    st.integers(1, native.MOST_BINS),
    st.data(),
)
@settings(max_examples=examples(400), deadline=None)
def test_any_array_in_any_layout(array: Any, bins: int, data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(array.ndim)))
    slices = tuple(
        slice(None, None, data.draw(st.sampled_from([1, 2, -1, -3]))) for _ in range(array.ndim)
    )
    with np.errstate(all="ignore"):
        check(array.transpose(axes)[slices], bins)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "u1"])
@pytest.mark.parametrize("size", [1, 7, 8, 1023, 1024, 1025, 40_000, 200_003])
def test_all_sizes_of_blocks(dtype: str, size: int) -> None:
    rng = np.random.default_rng(size)
    array = (rng.standard_normal(size) * 40).astype(dtype)
    check(array)
    if dtype[0] == "f" and size > 2:
        array[size // 2] = np.nan
        array[-1] = -np.inf
        check(array)
        check(np.full_like(array, np.inf))


@pytest.mark.parametrize("dtype", ["?", "u1", "i1"])
@pytest.mark.parametrize("size", [1, 7, 8, 1023, 1024, 1025, 40_003])
@pytest.mark.parametrize("bins", [1, BINS, native.MOST_BINS])
def test_elements_of_one_byte(dtype: str, size: int, bins: int) -> None:
    rng = np.random.default_rng(size)
    for array in (
        rng.integers(0, 256, size).astype(dtype),
        rng.integers(-1, 3, size).astype(dtype),
        rng.integers(0, 256, size).astype("u1").view(dtype),  # a bool may hold any byte
        np.full(size, 1, dtype),
        np.zeros(size, dtype),
    ):
        check(array, bins)
        check(np.repeat(array, 2)[::2], bins)


@pytest.mark.parametrize("size", [2, 9, 700, 40_000])
@pytest.mark.parametrize("signs", [(0.0, -0.0), (-0.0, 0.0), (-0.0,), (1.0, -0.0, 0.0)])
@pytest.mark.parametrize("turned", [1.0, -1.0])
def test_an_extreme_of_zero_has_no_sign(signs: tuple[float, ...], size: int, turned: float) -> None:
    array = np.resize(np.array(signs) * turned, size)
    check(array)
    rows = summary_rows([(number, 1, 1, array) for number in range(8)])
    extremes = [row[6:8] for row in rows]
    extremes.append((in_python(array).min, in_python(array).max))
    for extreme in extremes:
        assert repr(extreme[0]) in ("0.0", "-1.0"), signs
        assert repr(extreme[1]) in ("0.0", "1.0"), signs


def test_layouts_of_large_arrays() -> None:
    cube = np.random.default_rng(0).standard_normal((40, 50, 60)).astype("f4")
    for view in (cube.T, cube[::2, ::-1], cube[:, :1], np.broadcast_to(cube[0, 0], (50, 60))):
        view.flags.writeable = False
        check(view)
    check(np.array(2.5))


def test_every_half_and_bfloat16() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    check(bits.view(np.float16))
    check(bits.view(np.float16)[::3])
    small = bits.view(ml_dtypes.bfloat16)
    kept = np.abs(small.astype("f4")) < 1e30
    check(small[kept])
    check(small[np.isnan(small.astype("f4"))])


@pytest.mark.parametrize(
    "array",
    [np.zeros((0, 3)), np.array(["a"]), np.zeros(3, "c8"), np.zeros(3, ">f4"),
     np.zeros(3, np.longdouble), np.zeros(3, object), np.array([1e200, 1.0]),
     np.array([1e-200, 0.0]), np.zeros(3, "M8[s]")],
)  # fmt: skip
def test_what_it_does_not_read_is_left_to_python(array: Any) -> None:
    assert native.statistics(array, BINS) is None
    assert native.statistics(np.ones(3), native.MOST_BINS + 1) is None


def test_packed_as_a_recording_keeps_it() -> None:
    array = np.random.default_rng(3).standard_normal(500).astype("f4")
    ((*_, histogram, preview),) = summary_rows([(1, 2, 3, array)])
    expected = summary_row(1, 2, 3, in_python(array))
    assert (histogram, preview) == expected[-2:]


def test_arguments_that_make_no_sense() -> None:
    core = native._core
    assert core is not None
    with pytest.raises(ValueError, match="a histogram has 1 to 256 bins"):
        core.summarise(np.ones(3), ord("d"), 0, False)
    with pytest.raises(ValueError, match="not read"):
        core.summarise(np.ones(3), ord("G"), 32, False)
    with pytest.raises(TypeError):
        core.summarise(3.5, ord("d"), 32, False)


# ---------------------------------------------------------------- without it


def state_of(folder: Path, **environment: str) -> str:
    """What a process says of the core that it found, with a copy of the package in a folder."""
    package = folder / "nodescope"
    if not package.exists():
        (package / "native").mkdir(parents=True)
        (package / "__init__.py").touch()
        source = Path(native.__file__)
        (package / "native" / "__init__.py").write_text(source.read_text())
    done = subprocess.run(
        [sys.executable, "-c", "from nodescope import native; print(native.STATE, '|',"
         "native.statistics(__import__('numpy').ones(3), 32))"],
        capture_output=True, text=True, check=True, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
    )  # fmt: skip
    return done.stdout.strip()


def test_absent_damaged_old_and_switched_off(tmp_path: Path) -> None:
    assert state_of(tmp_path) == "not built; statistics take longer | None"
    core = tmp_path / "nodescope" / "native" / "_core.abi3.so"
    core.write_bytes(b"\x7fELF, but no library")
    assert state_of(tmp_path).startswith("not usable: ")
    core.unlink()
    built = Path(str(native._core.__file__))  # type: ignore[union-attr]
    core.write_bytes(built.read_bytes())
    assert state_of(tmp_path).startswith("in use | (1.0, 1.0, 1.0")
    assert state_of(tmp_path, NODESCOPE_NATIVE="0") == "off: NODESCOPE_NATIVE is 0 | None"
    loader = tmp_path / "nodescope" / "native" / "__init__.py"
    loader.write_text(
        loader.read_text().replace(f"REVISION: Final = {native.REVISION}", "REVISION: Final = 999")
    )
    assert state_of(tmp_path) == "of another version; install nodescope again | None"


def build_module() -> Any:
    spec = importlib.util.spec_from_file_location("build_core", ROOT / "core/native/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_a_compiler_or_with_a_broken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "_core.abi3.so"
    build = build_module()
    monkeypatch.setenv("CC", "no-such-compiler")
    assert build.build_core(target) == "there is no C compiler"
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'Python.h: fatal error: no such file' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    assert build.build_core(target) == "Python.h: fatal error: no such file"
    assert not target.exists()


def test_two_builds_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build, target = build_module(), tmp_path / "_core.abi3.so"
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho core > "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    copyfile, reasons = shutil.copyfile, []

    def copy_while_another_build_ends(source: Path, copy: Path) -> None:
        copyfile(source, copy)
        if not reasons:
            reasons.append("running")
            reasons.append(build.build_core(target))

    monkeypatch.setattr(build.shutil, "copyfile", copy_while_another_build_ends)
    reasons.append(build.build_core(target))
    assert reasons == ["running", "", ""]
    assert target.read_text() == "core\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [target.name, "cc"]


SEGMENTS = ("normal", "constant", "far", "ramp", "zeros", "tiny", "steps")


def segment(kind: str, size: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    scale = 10.0 ** rng.integers(-6, 7)
    made = {
        "normal": lambda: rng.standard_normal(size) * scale,
        "constant": lambda: np.full(size, scale),
        "far": lambda: 1e30 * (1 + rng.standard_normal(size) * 1e-3),
        "ramp": lambda: np.linspace(-scale, scale, size),
        "zeros": lambda: np.resize([0.0, -0.0], size),
        "tiny": lambda: rng.standard_normal(size) * 1e-42,
        "steps": lambda: rng.integers(-3, 4, size) * scale,
    }
    return made[kind]().astype(np.float32)


@given(
    st.lists(st.tuples(st.sampled_from(SEGMENTS), st.integers(1, 5000)), min_size=1, max_size=5),
    st.integers(0, 1 << 32),
    st.sampled_from([None, np.nan, np.inf, -np.inf]),
)
@settings(max_examples=examples(150), deadline=None)
def test_floats_in_a_row_of_any_kind(parts: Any, seed: int, bad: float | None) -> None:
    rng = np.random.default_rng(seed)
    array = np.concatenate([segment(*part, rng) for part in parts])
    check(array)
    check(array[1:])
    if bad is not None:
        array[rng.integers(len(array))] = bad
        check(array)


@pytest.mark.parametrize("first", [0.0, 1e6, -1e30])
@pytest.mark.parametrize("rest", [0.0, 1e-3, 7.0])
def test_a_beginning_unlike_the_rest_costs_no_digits(first: float, rest: float) -> None:
    array = np.full((1 << 20) + 77, rest, dtype=np.float32)
    array[:1024] = first
    check(array)
    array[5000:] += np.arange(len(array) - 5000, dtype=np.float32) % 7 * np.float32(1e-3)
    check(array)


@pytest.mark.parametrize("size", [95, 96, 103, 127, 255, 256, 263, 8183, 8184, 8192, 8440, 20_001])
def test_bins_of_all_sizes_of_rounds(size: int) -> None:
    rng = np.random.default_rng(size)
    check(rng.standard_normal(size).astype("f4"))
    check(np.linspace(-3, 5, size, dtype="f4"))


@pytest.mark.parametrize("low", [0.0, -1.0, 3.3, -700.1, 5e4, 1e30, 1e-38])
@pytest.mark.parametrize("width", [1.0, 0.7, 32.0, 1e-4, 1e-44, 1e31])
def test_bins_of_items_at_their_borders(low: float, width: float) -> None:
    """A rounding to float32 would put these into the bin beside theirs."""
    borders = (low + width * np.arange(33) / 32).astype("f4")
    near = [borders]
    for _ in range(3):
        near.append(np.nextafter(near[-1], np.float32(np.inf)))
    items = np.concatenate([*near, *(-(item - borders[0]) + borders[-1] for item in near)])
    array = np.clip(np.resize(items, 4000), borders[0], borders[-1])
    check(array)
    check(np.random.default_rng(1).permutation(array))
    rest = np.random.default_rng(2).random(100_000) * (borders[-1] - borders[0]) + borders[0]
    check(np.clip(rest.astype("f4"), borders[0], borders[-1]))
