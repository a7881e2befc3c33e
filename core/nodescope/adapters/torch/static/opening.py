"""Opening: the code that ``nodescope open model.pt2`` runs in a process of its own.

The program is drawn first, so that the page shows the whole graph, and then runs node by node.
"""

from __future__ import annotations

from pathlib import Path

from nodescope.adapters.torch.static import load
from nodescope.adapters.torch.static.inputs import inputs_of
from nodescope.adapters.torch.static.program import unobserved
from nodescope.console_output import say
from nodescope.emit.emitter import active
from nodescope.errors import NodescopeError
from nodescope.events import Logged


def open_program(
    path: Path, *, file: Path | None = None, runs: bool = True, joint: bool = False,
    trusted: bool = False,
) -> int:  # fmt: skip
    """Draw a saved program in the active run, and run it; return the exit status.

    Args:
        path: The ``.pt2`` file.
        file: A file of inputs, see `inputs_of`; or None.
        runs: Whether to run the program after drawing it.
        joint: Whether to run the backward pass from its first output, too.
        trusted: As in `load`.
    """
    try:
        program = load(path, trusted=trusted, loss=0 if joint else None)
        if not runs:
            program.draw()
            _tell(f"{path.name} is drawn and not run")
            return 0
        with unobserved():
            inputs = inputs_of(program, file)
        _tell(inputs.origin)
        if joint:
            _tell("the backward pass begins at the first output; if it is no scalar, at its sum")
        program.run(*inputs.args, **inputs.kwargs)
    except NodescopeError as error:
        say(str(error))
        return 2
    return 0


def _tell(text: str) -> None:
    """Show a message on the page and in the terminal; only in the terminal without a run."""
    emitter = active()
    if emitter is None:
        say(text)
    else:
        emitter.bus.emit(Logged("nodescope", text, emitter.step, emitter.bus.now_ns()))
