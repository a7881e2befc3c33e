"""Interactive sessions: Python prompts, IPython and Jupyter notebooks.

Determines the name of a session, the names of a notebook's cells, and which frames belong to the
session's own machinery.

Invariant: imports nothing from IPython; it is queried only if the program has already loaded it.
Nothing here raises.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
from pathlib import Path
from typing import Any, Final

_PACKAGES: Final = ("IPython", "ipykernel", "tornado", "zmq", "traitlets")
_PROMPT: Final = ("code.py", "codeop.py", "asyncio", "_pyrepl", "idlelib")


def is_interactive() -> bool:
    """Whether the user types the program line by line, so that an error does not end it."""
    return hasattr(sys, "ps1") or _shell() is not None


def program_name() -> str:
    """The name of this process's run: its script, its notebook, or ``python prompt``."""
    if _shell() is not None:
        return _notebook_name()
    if sys.argv and sys.argv[0] not in ("", "-", "-c"):
        return Path(sys.argv[0]).name or "program"
    return "python prompt" if is_interactive() else "program"


def cell_name(file: str) -> str:
    """``In[4]`` for the file name that IPython gave to cell 4; any other file name unchanged.

    The cell's text stays readable through `linecache` by its new name.
    """
    return file if "IPython" not in sys.modules else _cell_name(file)


@functools.lru_cache(maxsize=4096)
def _cell_name(file: str) -> str:
    shell = _shell()
    try:
        # ("Cell", "In[4]"), or None for a file that is not a cell.
        kind, name = shell.compile.format_code_name(file)
        if kind != "Cell" or not isinstance(name, str):
            return file
        lines = linecache.getlines(file)
    except Exception:  # another version of IPython, or an incomplete shell
        return file
    # No modification time: `linecache.checkcache` keeps such an entry.
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    return name


def is_machinery(file: str) -> bool:
    """Whether a code object's file belongs to the machinery that runs an interactive session's
    lines.
    """
    return bool(places := _machinery()) and file.startswith(places)


def _machinery() -> tuple[str, ...]:
    if "IPython" not in sys.modules and not hasattr(sys, "ps1"):
        return ()
    return _machinery_of(frozenset(name for name in _PACKAGES if name in sys.modules))


@functools.lru_cache(maxsize=16)
def _machinery_of(packages: frozenset[str]) -> tuple[str, ...]:
    folders = [
        os.path.dirname(file) + os.sep
        for file in (getattr(sys.modules.get(name), "__file__", None) for name in packages)
        if file
    ]
    # How a kernel is started: `python -m ipykernel_launcher`.
    launchers = [
        os.path.join(os.path.dirname(os.path.dirname(folder)), "ipykernel_launcher.py")
        for folder in folders
    ]
    library = os.path.dirname(os.__file__)
    return (*folders, *launchers, *(os.path.join(library, name) for name in _PROMPT))


def _shell() -> Any:
    """The IPython shell of this process, or None."""
    module = sys.modules.get("IPython")
    try:
        return module.get_ipython() if module is not None else None
    except Exception:
        return None


def _notebook_name() -> str:
    """The notebook's name, which Jupyter and VS Code pass to the kernel; IPython alone has none."""
    path = os.environ.get("JPY_SESSION_NAME", "")
    try:
        path = path or str(_shell().user_ns.get("__vsc_ipynb_file__", ""))
    except Exception:
        pass
    if path:
        return os.path.basename(path)
    return "notebook" if "ipykernel" in sys.modules else "IPython"
