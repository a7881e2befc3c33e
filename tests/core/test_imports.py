"""What an import of nodescope loads: a name's module when the name is first used, and no more."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import nodescope as ns


def run(program: str) -> None:
    """Run a program in a fresh process; it has to succeed."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_import_loads_neither_the_engine_nor_the_ops() -> None:
    run(
        "import sys, nodescope\n"
        "rooms = ('nodescope.engine', 'nodescope.ops', 'nodescope.passes')\n"
        "loaded = [name for name in sys.modules if name.startswith(rooms)]\n"
        "assert loaded == [], loaded\n"
        "nodescope.tensor\n"
        "assert 'nodescope.engine.tensor' in sys.modules\n"
        "assert 'nodescope.engine.static' not in sys.modules\n"
    )


def test_importing_a_part_of_the_engine_completes_tensors() -> None:
    run(
        "from nodescope.engine.tensor import make\n"
        "import numpy as np\n"
        "x = make(np.ones(3))\n"
        "assert float(np.sum(x + 1) + x.sum()) == 9.0\n"
    )


def test_the_package_named_like_a_function_does_not_hide_it() -> None:
    run(
        "import nodescope\n"
        "from nodescope.record.recording import Recording\n"
        "from nodescope import record\n"
        "assert callable(nodescope.record) and record is nodescope.record\n"
    )


def test_every_name_is_there_and_is_what_type_checkers_see() -> None:
    (checked,) = [
        statement
        for statement in ast.parse(inspect.getsource(ns)).body
        if isinstance(statement, ast.If)
    ]
    imported = [
        (statement.module, alias)
        for statement in checked.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    ]
    seen = {alias.name: module for module, alias in imported if not alias.asname}
    libraries = {
        alias.asname: f"{module}.{alias.name}" for module, alias in imported if alias.asname
    }
    assert libraries == ns._LIBRARIES
    modules = {name for name, module in seen.items() if module == "nodescope.engine"}
    assert modules == ns._MODULES
    assert {name: module for name, module in seen.items() if name not in modules} == ns._HOMES
    assert set(ns.__all__) <= {*seen, "NodescopeError", "__version__"}
    for name in dir(ns):
        assert getattr(ns, name) is not None or name == "newaxis"
