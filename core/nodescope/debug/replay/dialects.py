"""Dialects: which library reruns a recorded node and knows which elements it reads.

The adapter that recorded a node determines its dialect. nodescope's own engine is one
(`engine_dialect`); another package registers its `Rerun` under the dialect's name in the entry
point group ``nodescope.rerun``.

Invariant: a dialect that cannot rerun a node refuses with the reason and a hint. Nodes of another
library are rerun in a separate process; the server process never loads that library.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from nodescope.adapters.protocol import Rerun
from nodescope.console_output import last_line
from nodescope.errors import RecordingError, ReplayError
from nodescope.events import Array
from nodescope.ir.attrs import opaque_in
from nodescope.ir.capabilities import Framework
from nodescope.ir.graph import Node
from nodescope.ops import reading
from nodescope.ops.calls import Scalar
from nodescope.ops.dependence import kind_named
from nodescope.ops.perturbation import perturbed
from nodescope.ops.reading import ElementDependence
from nodescope.plugins import plugins

GROUP: Final = "nodescope.rerun"
ENGINE: Final = "nodescope"
# The modules of nodescope's own dialects; each defines `RERUN`.
_OWN: Final = {
    ENGINE: "nodescope.debug.replay.engine_dialect",
    "torch": "nodescope.adapters.torch.rerun",
}
_known: dict[str, Rerun | str] = {}
"""By dialect: its `Rerun`, or the reason why there is none."""


def register(dialect: str, rerun: Rerun) -> None:
    """Register the `Rerun` of a dialect."""
    _known[dialect] = rerun


def _rerun(dialect: str) -> Rerun | str:
    if dialect not in _known:
        _known[dialect] = _loaded(dialect)
    return _known[dialect]


def _loaded(dialect: str) -> Rerun | str:
    if dialect in _OWN:
        own: Rerun = importlib.import_module(_OWN[dialect]).RERUN
        return own
    for entry in plugins(GROUP):
        if entry.name != dialect:
            continue
        try:
            rerun = entry.load()
            return rerun() if isinstance(rerun, type) else rerun  # type: ignore[no-any-return]
        except Exception as error:  # another package's code may raise anything
            return f"what would run {dialect} again cannot be loaded ({last_line(error)})"
    return f"it is an op of {dialect}, and nothing that is installed runs these"


@dataclass(frozen=True)
class RecordedCall:
    """A recorded node with its arguments, in the form of its dialect.

    Attributes:
        node: The recorded node.
        attrs: The node's attributes in this execution.
        args: By port: a value id, or a `Scalar` for a Python scalar among ``attrs``.
        rerun: The dialect's `Rerun`, which may only know what the node reads; None without one.
        refusal: Why the node cannot be rerun, or ``""``.
    """

    node: Node
    attrs: dict[str, Any] = field(repr=False)
    args: tuple[int | Scalar, ...]
    rerun: Rerun | None
    refusal: str = ""

    @property
    def full_name(self) -> str:
        """The op's name in its library."""
        return self.node.native or self.node.op

    @property
    def kind(self) -> str:
        """The op's read pattern by its canonical name: a kind of `nodescope.ops.reading`."""
        return kind_named(self.node.op) or "everything"

    @property
    def runs(self) -> bool:
        """Whether the node can be rerun."""
        return self.rerun is not None and not self.refusal

    def check(self) -> None:
        """Raise `ReplayError` if the node cannot be rerun."""
        if not self.runs:
            raise ReplayError(
                f"{self.node.name}: {self.full_name} cannot be run again: {self.refusal}",
                hint="record at --level values: what is recorded needs no running",
            )

    def operands(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The operands by port: arrays and scalars."""
        waiting = iter(arrays)
        return tuple(
            operand.value if isinstance(operand, Scalar) else next(waiting) for operand in self.args
        )

    def run(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Run the op on arrays, one for each input that is a value.

        Raises:
            ReplayError: The node cannot be rerun, or its op raised.
        """
        self.check()
        assert self.rerun is not None
        try:
            with np.errstate(all="ignore"):
                outputs = self.rerun.run(self.node, self.attrs, arrays)
        except (RecordingError, ReplayError):
            raise
        except Exception as error:
            raise ReplayError(
                f"{self.node.name}: {self.node.op} raised {type(error).__name__}: {error}"
            ) from error
        return tuple(map(np.asarray, outputs))

    def reads(
        self, inputs: Sequence[Any], outputs: Sequence[Array], port: int, position: int
    ) -> ElementDependence:
        """The input elements that an output element depends on.

        Args:
            inputs: The inputs by port, including scalars.
            outputs: The outputs.
            port: The output's port.
            position: The element's position in C order.

        Returns:
            The dialect's answer; else the elements at the same position for an elementwise op; else
            the result of rerunning the op on perturbed inputs; else all elements.
            `ElementDependence.note` says if the answer is uncertain.
        """
        if self.rerun is not None:
            try:
                reads_told = self.rerun.reads(
                    self.node, self.attrs, inputs, outputs, port, position
                )
            except Exception:  # another package's code failed: continue without its answer
                reads_told = None
            if reads_told is not None:
                return reads_told
        shape = outputs[port].shape
        if self.kind == "elementwise":
            by_place = reading.broadcast(inputs, shape, position)
            if by_place is not None:
                return by_place
        if not self.runs:
            note = f"{self.full_name} cannot be run again, so it is not known which elements matter"
            return reading.all_of(inputs)._replace(note=note)
        perturbed_reads = perturbed(self._run_operands, inputs, outputs, position, port)
        if perturbed_reads is not None:
            return perturbed_reads._replace(
                note=f"found by running {self.full_name} on other numbers"
            )
        note = f"which elements matter to {self.full_name} could not be found out"
        return reading.all_of(inputs)._replace(note=note)

    def _run_operands(self, operands: Sequence[Any]) -> tuple[Array, ...]:
        pairs = zip(operands, self.args, strict=True)
        return self.run([array for array, arg in pairs if not isinstance(arg, Scalar)])


def recorded_call(
    node: Node, attrs: dict[str, Any] | None = None, framework: Framework | None = None
) -> RecordedCall:
    """A recorded node as a call of its op.

    Args:
        node: The recorded node.
        attrs: The attributes in one execution; the node's own if None.
        framework: The framework that ran the node, if known.

    Raises:
        ReplayError: The recording lacks something that the dialect needs; the message names it.
    """
    attrs = node.attrs if attrs is None else attrs
    if attrs is not node.attrs:
        node = msgspec.structs.replace(node, attrs=attrs)
    rerun = _rerun(node.dialect)
    if isinstance(rerun, str):
        return RecordedCall(node, attrs, node.inputs, None, rerun)
    refusal_of = getattr(rerun, "refusal", None)
    refusal = "" if refusal_of is None else refusal_of(node, attrs, framework)
    return RecordedCall(node, attrs, rerun.operands(node, attrs), rerun, refusal)


def check_restored(node: Node, attrs: dict[str, Any], besides: Sequence[str] = ()) -> None:
    """Refuse attributes that were recorded as text only; for `Rerun.operands`.

    Args:
        node, attrs: The node to rerun, and its attributes.
        besides: Names of attributes that are not checked.

    Raises:
        ReplayError: An attribute was recorded as text only; the message names it.
    """
    for name, value in attrs.items():
        if name not in besides and (text := opaque_in(value)):
            raise ReplayError(
                f"{node.name}: its attribute {name} cannot be restored; recorded was only the "
                f"text {text[:80]!r}",
                hint="nodes whose attributes are numbers, text, tuples, slices and dtypes can be "
                "run again",
            )
