"""Whose a source file is: told by its path, however nodescope is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope import origins
from nodescope.debug.gate.python_stack import user_stack

PACKAGE = Path(ns.__file__).parent
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import nodescope as ns
from nodescope.debug.gate.python_stack import user_stack
assert ns.__file__.startswith(sys.argv[1]), ns.__file__
from nodescope.emit.frames import user_source
from nodescope.origins import origin
print(user_source().function, user_stack()[0].function, origin(ns.__file__))
"""


def test_an_install_that_is_a_link_is_ours(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(PACKAGE.parent)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(link)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["<module>", "<module>", "nodescope"]


def test_packages_that_are_observed_are_internal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "_internal", origins._internal)
    line = os.path.join(os.sep, "site-packages", "torch", "nn", "modules.py")
    assert not origins.is_internal(line)
    origins.add_internal_package(os.path.join(os.sep, "site-packages", "torch", "__init__.py"))
    assert origins.is_internal(line)
    assert not origins.is_ours(line)
    assert origins.is_internal(np.__file__)
    origins.is_internal.cache_clear()


def test_the_users_frames_are_those_of_the_program() -> None:
    frame = user_stack()[0]
    assert frame.function == "test_the_users_frames_are_those_of_the_program"
