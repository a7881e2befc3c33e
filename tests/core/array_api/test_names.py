"""Every name of the standard, with its signature."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import nodescope as ns
from nodescope import array_api
from nodescope.errors import UsageError
from tests.core.array_api.oracle import EXTENSIONS, FUNCTIONS, signature
from tests.parts import in_parts

EXTENDED = [f"{space}.{name}" for space, known in EXTENSIONS.items() for name in known]
# nodescope's additions to the standard's dtypes.
BEYOND = {"float16"}


@in_parts(1)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature(name: str) -> None:
    assert signature(getattr(ns, name)) == signature(FUNCTIONS[name])


@pytest.mark.parametrize("path", EXTENDED)
def test_extensions_take_every_call_of_the_standard(path: str) -> None:
    """nodescope's extensions also accept NumPy's arguments, but must accept all the standard's."""
    space, name = path.split(".")
    extension_signature = inspect.signature(getattr(getattr(ns, space), name))
    parameters = inspect.signature(EXTENSIONS[space][name]).parameters.values()
    positional = [
        parameter for parameter in parameters if parameter.kind is parameter.POSITIONAL_ONLY
    ]
    named = {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.kind is not parameter.POSITIONAL_ONLY
    }
    extension_signature.bind(*(object() for _ in positional), **named)
    required = [item for item in positional if item.default is item.empty]
    extension_signature.bind(*(object() for _ in required))


def test_every_name_is_listed_and_nothing_else() -> None:
    constants = {"e", "inf", "nan", "newaxis", "pi"}
    dtypes = set(strict.__array_namespace_info__().dtypes())
    known = {*FUNCTIONS, *constants, *dtypes, "__array_namespace_info__"}
    assert set(array_api.NAMES) == known | BEYOND
    assert known <= set(dir(ns))
    for name in array_api.NAMES:
        assert getattr(ns, name) is array_api.find(name)


@pytest.mark.parametrize("name", ["e", "inf", "newaxis", "pi"])
def test_constant(name: str) -> None:
    assert getattr(ns, name) == getattr(strict, name)


def test_nan() -> None:
    assert ns.nan != ns.nan


def test_names_load_when_they_are_requested() -> None:
    program = (
        "import sys, nodescope\n"
        "assert 'nodescope.array_api.creation' not in sys.modules\n"
        "assert 'ml_dtypes' not in sys.modules\n"
        "assert nodescope.zeros(2).shape == (2,)\n"
        "assert 'ml_dtypes' not in sys.modules\n"
        "assert nodescope.zeros(2, dtype='bfloat16').dtype == nodescope.bfloat16\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'arctan'"):
        ns.arctan  # noqa: B018


def test_info_equals_that_of_array_api_strict() -> None:
    info, strict_info = ns.__array_namespace_info__(), strict.__array_namespace_info__()
    assert info.capabilities() == strict_info.capabilities()
    assert info.default_device() in info.devices()
    for key, value in strict_info.default_dtypes().items():
        assert info.default_dtypes()[key] == np.dtype(value._np_dtype)
    kinds: list[Any] = [
        None, "bool", "signed integer", "unsigned integer", "integral", "real floating",
        "complex floating", "numeric", ("integral", "bool"), (),
    ]  # fmt: skip
    for kind in kinds:
        assert set(info.dtypes(kind=kind)) == set(strict_info.dtypes(kind=kind)), kind
    with pytest.raises(UsageError, match="no device 'gpu'"):
        info.dtypes(device="gpu")


def test_info_methods_have_the_standard_signatures() -> None:
    strict_class = type(strict.__array_namespace_info__())
    for name, method in inspect.getmembers(strict_class, inspect.isfunction):
        if not name.startswith("_"):
            assert signature(getattr(ns.__array_namespace_info__, name)) == signature(method)


def test_star_import_leaves_the_builtins_alone() -> None:
    imported: dict[str, Any] = {}
    exec("from nodescope import *", imported)
    assert not {"abs", "all", "any", "bool", "max", "min", "pow", "round", "sum"} & set(imported)
