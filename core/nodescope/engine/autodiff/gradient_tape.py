"""GradientTape: TensorFlow's interface to gradients.

The engine's tape consists of the links between tensors and always exists. A `GradientTape` selects
from it: operations that ran while it recorded, and sources that it watched.

Invariant: no value or node depends on whether a GradientTape is active; a tensor that was only
watched no longer requires a gradient once all tapes that watch it have ended.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.backward import start
from nodescope.engine.autodiff.reach import aside, behind
from nodescope.engine.autodiff.tape import pull_many
from nodescope.engine.autodiff.transforms import transforming, zeros_for
from nodescope.engine.losses import began
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.tensor import LEAF, SMOOTH, Tensor, make, next_seq, settled
from nodescope.engine.trees import Tree, difference, flatten, unflatten
from nodescope.errors import DtypeError, GradientError, ShapeError, UsageError

Unconnected = Literal["none", "zero"]

_lock = threading.Lock()
_watched: dict[int, list[Any]] = {}
"""Tensors that require a gradient only because tapes watch them, with the number of these, by
``id``.
"""


class GradientTape:
    """Records operations inside ``with GradientTape() as tape:`` for `gradient`, as in TensorFlow.

    Args:
        persistent: Whether `gradient` may be called more than once.
        watch_accessed_parameters: Whether parameters and tensors made with ``requires_grad`` are
            sources without being watched.
    """

    def __init__(self, persistent: bool = False, watch_accessed_parameters: bool = True) -> None:
        self._persistent = persistent
        self._accessed = watch_accessed_parameters
        self._used = False
        self._around: contextlib.AbstractContextManager[None] | None = None
        self._spans: list[list[float]] = []  # in sequence numbers; the last interval may be open
        self._sources: dict[int, Tensor] = {}
        self._held: list[Tensor] = []  # tensors that require a gradient because of this tape

    # Recording

    def __enter__(self) -> GradientTape:
        if self._around is not None:
            raise UsageError("GradientTape: this tape is already recording", source=where())
        self._used = False
        self._begin()
        self._around = transforming()
        self._around.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        around, self._around = self._around, None
        self._end()
        _release(self._held)
        if around is not None:
            around.__exit__(None, None, None)

    def watch(self, tensor: Tree) -> None:
        """Make the tensors of a tree sources: everything computed from them is recorded.

        Raises:
            UsageError: A leaf of the tree is not a tensor, or the tape is not recording.
            DtypeError: A tensor is not floating point.
        """
        if self._around is None:
            raise UsageError(
                "GradientTape: watch was called outside of the tape's block",
                source=where(),
                hint="call it inside of `with nodescope.GradientTape() as tape:`",
            )
        leaves, _ = flatten(tensor)
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise UsageError(
                    f"GradientTape: a {type(leaf).__name__} cannot be watched",
                    source=where(),
                    hint="make it a tensor with nodescope.tensor",
                )
            if leaf.dtype.kind not in SMOOTH:
                raise DtypeError(
                    f"GradientTape: a tensor of {leaf.dtype} has no gradient", source=where()
                )
            leaf = settled(leaf)
            if id(leaf) not in self._sources:
                self._sources[id(leaf)] = leaf
                if _hold(leaf):
                    self._held.append(leaf)

    @contextlib.contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Treat the operations inside the block as constants for this tape."""
        if self._around is None:
            raise UsageError(
                "GradientTape: stop_recording was called outside of the tape's block",
                source=where(),
            )
        self._end()
        state = current()
        state.transforms -= 1
        try:
            yield
        finally:
            state.transforms += 1
            self._begin()

    def reset(self) -> None:
        """Forget everything recorded and watched so far."""
        recording = self._around is not None
        self._spans.clear()
        self._sources.clear()
        self._used = False
        _release(self._held)
        if recording:
            self._begin()

    def _begin(self) -> None:
        self._spans.append([next_seq(), float("inf")])

    def _end(self) -> None:
        if self._spans:
            self._spans[-1][1] = next_seq()

    def _recorded(self, tensor: Any) -> bool:
        seq = tensor.edge[0]
        return any(first < seq < last for first, last in self._spans)

    def watched_variables(self) -> tuple[Tensor, ...]:
        """Parameters that the recorded results depend on, in order of first use.

        Only results that are still alive count: released results have no gradient.
        """
        used: dict[int, tuple[float, int, Tensor]] = {}
        for key, source in self._sources.items():
            if _is_parameter(source):
                used[key] = (0, len(used), source)
        if self._accessed:
            for candidate in gc.get_objects():
                # By its type: `isinstance` on a dead weak proxy raises.
                if not issubclass(type(candidate), Tensor):
                    continue
                if candidate.edge is not None and self._recorded(candidate):
                    for port, operand_ in enumerate(candidate.edge[2]):
                        if isinstance(operand_, Tensor) and _is_parameter(operand_):
                            use = (candidate.edge[0], port, operand_)
                            used[id(operand_)] = min(
                                used.get(id(operand_), use), use, key=lambda x: x[:2]
                            )
        return tuple(
            parameter_ for _, _, parameter_ in sorted(used.values(), key=lambda use: use[:2])
        )

    # Gradients

    def gradient(
        self,
        target: Tree,
        sources: Tree,
        output_gradients: Tree = None,
        unconnected_gradients: Unconnected = "none",
    ) -> Tree:
        """The gradient of the sum of all elements of ``target``.

        Args:
            target: A tree of tensors.
            sources: A tree of tensors: parameters, watched tensors, or recorded results.
            output_gradients: A tree like ``target`` with a weight per element; ones if None.
            unconnected_gradients: The gradient of a source that ``target`` does not depend on:
                ``"none"`` for None, ``"zero"`` for zeros.

        Returns:
            A tree like ``sources``. Inside another tape's block it can be differentiated again.

        Raises:
            GradientError: The tape is used up, or a leaf is not a tensor.
        """
        self._use()
        targets = _tensors(target, "target")
        if output_gradients is None:
            cotangents: list[Any] = [None] * len(targets)
        else:
            cotangents, form = flatten(output_gradients)
            target_form = flatten(target)[1]
            if form != target_form:
                raise GradientError(
                    "GradientTape: output_gradients does not have the structure of target: "
                    + difference(target_form, form),
                    source=where(),
                )
        if unconnected_gradients not in ("none", "zero"):
            raise GradientError(
                f"GradientTape: unconnected_gradients={unconnected_gradients!r}",
                source=where(),
                hint='use "none" or "zero"',
            )
        tensors = _tensors(sources, "sources")
        gradients: list[Any] = self._pull(targets, cotangents, tensors)
        if unconnected_gradients == "zero":
            gradients = [
                zeros_for(tensor) if gradient is None else gradient
                for tensor, gradient in zip(tensors, gradients, strict=True)
            ]
        # None is an empty tree elsewhere; here it stands for a leaf.
        return unflatten(flatten(sources)[1], gradients)

    def jacobian(
        self, target: Tensor, sources: Tree, unconnected_gradients: Unconnected = "none"
    ) -> Tree:
        """The derivative of each element of ``target``, of shape ``target.shape + source.shape``.

        Raises:
            GradientError: As for `gradient`.
        """
        self._use()
        (root,) = _tensors(target, "target")
        tensors = _tensors(sources, "sources")
        rows = []
        for number in range(root.size):
            basis = np.zeros(root.size, root.dtype)
            basis[number] = 1.0
            rows.append(self._pull([root], [basis.reshape(root.shape)], tensors))
        return unflatten(
            flatten(sources)[1],
            [
                _stacked([row[port] for row in rows], tensor, root.shape, 0, unconnected_gradients)
                for port, tensor in enumerate(tensors)
            ],
        )

    def batch_jacobian(
        self, target: Tensor, source: Tensor, unconnected_gradients: Unconnected = "none"
    ) -> Any:
        """The `jacobian` for a ``target`` whose row i depends only on row i of ``source``.

        Returns:
            Shape ``(batch, *target.shape[1:], *source.shape[1:])``.

        Raises:
            ShapeError: The first dimensions differ.
            GradientError: As for `gradient`.
        """
        self._use()
        (root,), (tensor,) = _tensors(target, "target"), _tensors(source, "sources")
        if not root.ndim or not tensor.ndim or root.shape[0] != tensor.shape[0]:
            raise ShapeError(
                f"GradientTape: batch_jacobian of {root.shape} by {tensor.shape}: the first "
                "dimensions differ",
                source=where(),
            )
        batch, *rest = root.shape
        size = int(np.prod(rest))
        rows = []
        for number in range(size):
            basis = np.zeros((batch, size), root.dtype)
            basis[:, number] = 1.0
            rows.append(self._pull([root], [basis.reshape(root.shape)], [tensor])[0])
        return _stacked(rows, tensor, (batch, *rest), 1, unconnected_gradients)

    def _use(self) -> None:
        if self._used and not self._persistent:
            raise GradientError(
                "GradientTape: this tape was already used; only a persistent one can be reused",
                source=where(),
                hint="make it with nodescope.GradientTape(persistent=True)",
            )
        self._used = True

    def _counts(self, source: Tensor) -> bool:
        """Whether a tensor counts as a source."""
        if id(source) in self._sources:
            return True
        if source.edge is None:
            return False
        if source.edge is LEAF:
            return self._accessed and id(source) not in _watched
        return self._recorded(source)

    def _pull(
        self, roots: Sequence[Tensor], cotangents: Sequence[Any], sources: Sequence[Tensor]
    ) -> list[Tensor | None]:
        tracer = dispatch_mode.observer()
        again = current().transforms > 0 and current().recording
        traced = again or tracer is not None
        with _wanting(self._sources.values()):
            by_id = {id(source): source for source in sources if self._counts(source)}
            ends = {
                key: source
                for key, source in by_id.items()
                if source.edge is LEAF or not self._recorded(source)
            }
            passed = {key: source for key, source in by_id.items() if key not in ends}
            reached = behind(roots, lambda tensor: id(tensor) in ends or not self._recorded(tensor))
            away = aside(reached, by_id, self._recorded)
            pairs = [
                (root, start(root, _ones(root) if ct is None else ct, traced, "GradientTape"))
                for root, ct in zip(roots, cotangents, strict=True)
                if id(root) in reached and id(root) not in away
            ]
            pulled = {}
            if pairs:
                for root, ct in zip(roots, cotangents, strict=True):
                    if ct is None:
                        began(root)
                pulled = pull_many(
                    [root for root, _ in pairs], [ct for _, ct in pairs], traced=traced,
                    create_graph=again, keep=True, targets=ends, passed=passed, skip=away,
                )  # fmt: skip
        results: list[Tensor | None] = []
        for source in sources:
            if id(source) not in pulled:
                results.append(None)
                continue
            ct = pulled[id(source)][1]
            gradient = ct if isinstance(ct, Tensor) else make(np.asarray(ct))
            if tracer is not None:
                tracer.pair(source, gradient)
            results.append(gradient)
        return results


def _ones(root: Tensor) -> np.ndarray[Any, Any]:
    return np.ones(root.shape, root.dtype)


def _tensors(tree: Tree, subject: str) -> list[Tensor]:
    leaves, _ = flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise GradientError(
                f"GradientTape: {subject} must be tensors, not {type(leaf).__name__}",
                source=where(),
            )
    return [settled(leaf) for leaf in leaves]


def _stacked(
    rows: list[Any], source: Tensor, shape: tuple[int, ...], axis: int, unconnected: Unconnected
) -> Any:
    """Gradients of one element each, stacked into a tensor; in a batch, along its second
    dimension.
    """
    full = (*shape, *source.shape[axis:])
    if all(row is None for row in rows):
        if rows and unconnected == "none":
            return None
        return make(np.zeros(full, source.dtype))
    whole = [zeros_for(source) if row is None else row for row in rows]
    return np.stack(whole, axis=axis).reshape(full)


def _is_parameter(tensor: Tensor) -> bool:
    return getattr(tensor, "_kind", "") == "parameter" and tensor.edge is LEAF


def _hold(tensor: Tensor) -> bool:
    """Make a tensor require a gradient temporarily; False if it already does."""
    with _lock:
        known = _watched.get(id(tensor))
        if known is not None:
            known[1] += 1
            return True
        if tensor.edge is not None:
            return False
        _watched[id(tensor)] = [tensor, 1]
        tensor.edge = LEAF
        return True


def _release(held_tensors: list[Tensor]) -> None:
    with _lock:
        for tensor in held_tensors:
            known = _watched[id(tensor)]
            known[1] -= 1
            if not known[1]:
                del _watched[id(tensor)]
                if tensor.edge is LEAF:
                    tensor.edge = None
    held_tensors.clear()


@contextlib.contextmanager
def _wanting(tensors: Any) -> Iterator[None]:
    """Make watched tensors require a gradient again."""
    held_tensors: list[Tensor] = []
    try:
        held_tensors.extend(tensor for tensor in tensors if _hold(tensor))
        yield
    finally:
        _release(held_tensors)
