"""Starting Python processes: nodescope's own, and those that run the user's program.

Python looks for modules in the current folder first, so that an ``asyncio.py`` in that folder would
be run by a server that must not import it.

Invariant: nodescope's own processes import only from where nodescope and its dependencies are
installed, whatever the current folder and the environment contain. A process that runs a program
does not import from the current folder until the program's own `sys.path` is set. Imports only what
Python has already loaded itself: `nodescope` imports this first.
"""

from __future__ import annotations

import errno
import os
import sys

# A folder of PYTHONPATH, or of the user's own packages, is needed only if it contains one of these.
_NEEDED = (
    "nodescope_server", "numpy", "msgspec", "ml_dtypes", "fastapi", "starlette", "pydantic",
    "pydantic_core", "anyio", "uvicorn", "h11", "click", "websockets", "graphviz", "py_mini_racer",
    "re2",
)  # fmt: skip
_SETTINGS = ("PYTHON", "UVICORN_", "WEB_CONCURRENCY", "WEBSOCKETS_", "PYDANTIC_", "FORWARDED_")
_WITH_PROGRAM = ("run", "check")  # in a process of their own
_RECORDED = ".nscope"
NICE = 5
"""By how much the priority of background work is lowered."""
_MOST_PTH = 1 << 20
_REFUSED = {
    errno.EAGAIN: "another process (see ulimit -u)",
    errno.ENOMEM: "memory",
    errno.EMFILE: "another open file (see ulimit -n)",
    errno.ENFILE: "another open file",
}


def own_command(module: str, *arguments: str, background: bool = False) -> list[str]:
    """The command line that runs a nodescope module in a separate process.

    Neither ``PYTHON…`` variables nor the current folder affect its imports, and no code of the
    user's packages runs at its start. Folders without which a dependency would be missing are
    searched last.

    Args:
        module: The module, such as ``nodescope_server``.
        arguments: Its command line.
        background: Whether the process yields the processors to programs of normal priority.
    """
    lower = f"import os; os.nice({NICE}); " if background and hasattr(os, "nice") else ""
    code = (
        f"{lower}import sys; sys.path += {[*_user_folders(), *_more_folders()]!r}; "
        f"from runpy import run_module; run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    return [sys.executable, "-I", "-c", code, *arguments]


def own_environment(**more: str) -> dict[str, str]:
    """The environment for `own_command`: without settings of Python and of the server's
    libraries.
    """
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_SETTINGS)}
    return {**kept, **more}


def program_command(module: str, *arguments: str, python: str | None = None) -> list[str]:
    """The command line that runs a program by way of ``module``'s function ``main``.

    The program has Python's own `sys.path`; until that is set, the current folder is left out.

    Args:
        module: The module, such as ``nodescope.cli``.
        arguments: The arguments of `main`.
        python: An interpreter with nodescope installed; by default, this one.
    """
    code = (
        "import sys; sys.flags.safe_path or sys.path.__setitem__(0, sys.exec_prefix); "
        f"from {module} import main; sys.exit(main())"
    )
    return [python or sys.executable, "-c", code, *arguments]


def refused(error: BaseException) -> str:
    """The resource that has run out, if the error says that the system refused one."""
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "the system refuses another thread (see ulimit -u)"
    if isinstance(error, OSError):
        resource = _REFUSED.get(error.errno or 0)
        return f"the system refuses {resource}: {error.strerror}" if resource else ""
    return ""


def leave_current_folder() -> None:
    """Stop this process, if it is a nodescope command, from importing from the current folder.

    Under ``python -m nodescope`` that folder comes first; with an empty entry in ``PYTHONPATH`` it
    comes early. The first folder of `sys.path` for a program is set before the program runs.
    """
    arguments = getattr(sys, "orig_argv", [])
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    by_module = name == "-m" and any(
        option == "-m" and module.partition(".")[0] in ("nodescope", "nodescope_server")
        for option, module in zip(arguments, arguments[1:], strict=False)  # noqa: RUF007 (no import)
    )
    if not by_module and name not in ("nodescope", "nodescope.exe", "nodescope-script.py"):
        return
    if by_module and not getattr(sys.flags, "safe_path", False):
        sys.path[0] = sys.exec_prefix
    tail = arguments[arguments.index("-m") + 2 :] if by_module else sys.argv[1:]
    recorded = tail[:1] == ["check"] and any(map(_is_recording, tail))
    if tail[:1] and tail[0] in _WITH_PROGRAM and not recorded:
        return
    current_folder = _folder("")
    own = _folder(_root())
    if own != current_folder:
        sys.path[:] = [entry for entry in sys.path if _folder(entry) != current_folder]


def _is_recording(argument: str) -> bool:
    return argument.endswith(_RECORDED)


def _root() -> str:
    """The folder that contains the package ``nodescope``."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _folder(path: str) -> str:
    try:
        return os.path.realpath(path or os.getcwd())
    except OSError:
        return path  # the current folder is gone


def _user_folders() -> list[str]:
    """The folders of the user's own packages, if nodescope needs them.

    These include folders named by ``.pth`` files there, such as those of packages under
    development. Unlike `site`, this does not run lines of code in them.
    """
    import site

    from nodescope.plain_files import read_plain  # not before the path is set

    folder = site.USER_SITE if site.ENABLE_USER_SITE else None
    if not folder or not _is_needed(folder):
        return []
    folders = [folder]
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".pth") or name.startswith("."):
            continue
        try:
            content = read_plain(os.path.join(folder, name), _MOST_PTH)
            lines = content.decode("utf-8").splitlines()
        except (OSError, ValueError):
            continue
        named = [os.path.join(folder, line.strip()) for line in lines if line.strip()]
        folders += [entry for entry in named if entry not in folders and os.path.isdir(entry)]
    return folders


def _more_folders() -> list[str]:
    """The folder of nodescope itself, and those in ``PYTHONPATH`` that contain a dependency."""
    entries = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    usable = [] if sys.flags.ignore_environment else filter(os.path.isabs, entries)
    current_folder = _folder("")
    return [
        _root(),
        *(entry for entry in usable if _is_needed(entry) and _folder(entry) != current_folder),
    ]


def _is_needed(folder: str) -> bool:
    return any(os.path.isdir(os.path.join(folder, name)) for name in _NEEDED)


leave_current_folder()  # on import: before `nodescope` imports anything else
