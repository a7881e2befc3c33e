"""Programs under a run: recorded, or stopped by a controller in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodescope.api import Run
from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.controller import Controller
from nodescope.protocol import Continue, Stop

# Of what never comes. Ray on a busy machine takes minutes for what takes seconds alone.
WAIT_S = 240.0


def recorded(path: Path, program: Callable[[], Any], **options: Any) -> Any:
    """Run a program, recorded into ``path``. Returns its result."""
    run = Run(path, **options)
    run.start()
    try:
        return program()
    finally:
        run.finish()


class Debugged:
    """A program on its own thread, and the controller that it stops for.

    Attributes:
        run, controller: The run, and its controller.
        said: Every line for the user.
        result: The program's result, once it has ended.
    """

    def __init__(self, path: Path, program: Callable[[], Any], *breakpoints: str, **options: Any):
        self.said: list[str] = []
        self.result: Any = None
        self._fault: BaseException | None = None
        self.run = Run(
            path, debugger=True, say=self.said.append,
            breakpoints=tuple(map(parse_breakpoint, breakpoints)), **options,
        )  # fmt: skip
        self.controller: Controller = self.run.controller()
        self._program = program
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._begun, self._ended = threading.Event(), threading.Event()
        # The end of the program also wakes waiters, so none waits for a stop that never comes.
        self._thread.start()
        assert self._begun.wait(WAIT_S)

    def _work(self) -> None:
        try:
            # Start on the thread that ends the run: a dispatch mode can only be left on its own
            # thread.
            try:
                self.run.start()
            finally:
                self._begun.set()
            self.result = self._program()
        except BaseException as error:
            self._fault = error
        finally:
            self.run.end()
            self._ended.set()

    def stop(self) -> Stop | None:
        """Wait for the program's stop; None if it has ended."""
        self.controller.wait(WAIT_S)
        return self.controller.info.stop

    def ended(self) -> bool:
        """Whether the program ends in time without a command."""
        return self._ended.wait(WAIT_S)

    def go_on(self) -> None:
        """Continue from a stop."""
        self.controller.command(Continue())

    def stops(self) -> Iterator[Stop]:
        """Each stop in turn; the program continues after it."""
        while (stop := self.stop()) is not None:
            yield stop
            self.go_on()

    def end(self) -> Any:
        """Let the program run to its end; return its result.

        Raises:
            BaseException: The program's exception.
        """
        self.controller.leave()
        assert self._ended.wait(WAIT_S), "the program hangs"
        self._thread.join(WAIT_S)
        self.controller.close()
        self.run.finish()
        if self._fault is not None:
            raise self._fault
        return self.result


@contextmanager
def debugged(
    path: Path, program: Callable[[], Any], *breakpoints: str, **options: Any
) -> Iterator[Debugged]:
    """A context with a program that stops; the program has ended when the context is left."""
    program_under_test = Debugged(path, program, *breakpoints, **options)
    try:
        yield program_under_test
    finally:
        program_under_test.end()
