"""Shared memory: the tensors affected by a write to one of them.

Tensors share memory where NumPy's arrays would: views by basic indexing, ``reshape``, ``transpose``
and the like, and ``detach``. No tensor keeps a list of its views, which would cost every operation;
sharers are found at the write. In nearly all cases, CPython's reference counts prove at no cost
that there are none; otherwise all live tensors are scanned once.

Invariant: no sharer that the program can reach is missed; tensors that only the tape holds keep
their old elements, which it needs.
"""

from __future__ import annotations

import dis
import gc
import sys
from collections import Counter, deque
from types import FrameType
from typing import Any

import numpy as np

from nodescope.engine.source import where
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import Bundle, Tensor, Written, make, settled
from nodescope.errors import UsageError
from nodescope.native import holds
from nodescope.ops.index import Port
from nodescope.ops.op import Array


def owner(array: Array) -> Any:
    """The owner of an array's memory: the end of its chain of bases."""
    root: Any = array
    while (base := getattr(root, "base", None)) is not None:
        root = base
    return root


def _counts(tensor: Tensor) -> tuple[int, int]:
    """Reference counts of a tensor's array, and of its base."""
    array = tensor.data
    base = array.base
    return sys.getrefcount(array), sys.getrefcount(base)


def _alone() -> tuple[int, int]:
    """The result of `_counts` for a tensor that shares memory with no other."""
    whole, view = make(np.zeros(2)), make(np.zeros(2)[1:])
    return _counts(whole)[0], _counts(view)[1]


_ARRAY_ALONE, _BASE_ALONE = _alone()


def _now_count(tensor: Tensor) -> int:
    return sys.getrefcount(tensor._history[1])


def _now_alone() -> int:
    probe = Tensor.__new__(Tensor)
    probe._history = (None, Tensor.__new__(Tensor))
    return _now_count(probe)


_NOW_ALONE = _now_alone()


def unshared(tensor: Tensor) -> bool:
    """Whether reference counts prove that no other tensor shares this one's memory."""
    now = tensor
    if tensor.__class__ is Written:
        if _now_count(tensor) != _NOW_ALONE:
            return False  # another holder may have received it
        now = tensor._history[1]
    array, base = _counts(now)
    if array != _ARRAY_ALONE and array - holds(now.data) != _ARRAY_ALONE:  # by a recording
        return False
    above = now.data.base
    if above is None:
        return True
    alone = base == _BASE_ALONE or base - holds(above) == _BASE_ALONE
    return alone and above.__class__ is np.ndarray and above.base is None


_NEAR = 400
"""The number of operations that `taped` examines: some hundred microseconds."""


def _array_count(tensor: Tensor) -> int:
    return sys.getrefcount(tensor.data) - holds(tensor.data)


def _root_count(tensor: Tensor) -> int:
    return sys.getrefcount(tensor.data.base) - holds(tensor.data.base)


_ARRAY_ONCE, _ROOT_ONCE = _array_count(make(np.zeros(2))), _root_count(make(np.zeros(2)[1:]))


def taped(tensor: Tensor, result: Tensor) -> bool:
    """Whether reference counts prove that only the tape behind ``result`` shares ``tensor``'s
    memory, as after ``x[1:] += y``. The tape needs the old elements, so no tensor has to be
    updated.

    Every reference to the memory, and to each tensor that holds part of it, must be found on the
    tape near ``result``; a missing one may be held elsewhere.
    """
    now = tensor
    if tensor.__class__ is Written:
        now = tensor._history[1]
    base = now.data.base
    if base is not None and (base.__class__ is not np.ndarray or base.base is not None):
        return False
    root = id(now.data if base is None else base)
    del base  # it would be counted
    references: dict[int, int] = {}
    near: dict[int, Tensor] = {id(now): now}
    seen: set[int] = set()
    todo: deque[Any] = deque((result,))
    while todo and len(seen) < _NEAR:
        edge = getattr(todo.popleft(), "edge", None)
        if edge is None or id(edge[2]) in seen:
            continue
        seen.add(id(edge[2]))
        for operand in edge[2]:
            if operand.__class__ is Written:
                todo.append(operand._history[0])  # the state to which the tape refers
                continue
            references[id(operand)] = references.get(id(operand), 0) + 1
            if operand.__class__ is Tensor and root in (id(operand.data), id(operand.data.base)):
                near[id(operand)] = operand
            todo.append(operand)
    todo.clear()
    operand = edge = None  # they would be counted as well
    if now is not tensor:
        references[id(now)] = references.get(id(now), 0) + 1  # by the tensor that was written to
    shared = [*near.values()]
    near.clear()
    del now
    return _all_known(tensor, shared, root, references)


def _all_known(tensor: Tensor, shared: list[Tensor], root: int, references: dict[int, int]) -> bool:
    """Whether ``shared`` hold all of the memory, and the tape and ``tensor`` hold all of them."""
    users = Counter(id(t.data) for t in shared)
    users[root] += len(users.keys() - {root})  # views hold their bases
    for sharer in shared:
        if _array_count(sharer) - _ARRAY_ONCE + 1 != users[id(sharer.data)]:
            return False
        if sharer.data.base is not None and _root_count(sharer) - _ROOT_ONCE + 1 != users[root]:
            return False
    del sharer
    shared.append(Tensor.__new__(Tensor))  # no other holder
    counts = [sys.getrefcount(t) for t in shared]
    probe = counts.pop()
    shared.pop()
    return all(
        t is tensor or count - references.get(id(t), 0) == probe
        for t, count in zip(shared, counts, strict=True)
    )


def sharers(tensor: Tensor) -> list[Tensor]:
    """The other tensors within the program's reach that share memory with this one.

    Raises:
        UsageError: Some tensors are invisible to the garbage collector (`gc.freeze`).
    """
    root = owner(tensor.data)
    return _reachable(tensor, lambda data: data.__class__ is np.ndarray and owner(data) is root)


_NONE: dict[int, Tensor] = {}
_VIEWS = {
    "alias", "broadcast_to", "detach", "diagonal", "expand_dims", "flip", "getitem", "imag", "real",
    "reshape", "squeeze", "transpose",
}  # fmt: skip
"""Ops whose result may share memory with their first input."""


def traced_sharers(tensor: Tensor, builder: Any) -> list[Tensor]:
    """`sharers` while a graph is built: tensors that may share memory when it runs."""

    def root(data: Any) -> Any:
        if data.__class__ is np.ndarray:
            return id(owner(data))
        if data.__class__ is not Abstract or data.graph is not builder:
            return None
        value = data.value
        while (node := builder.producer(value)).op in _VIEWS and node.inputs:
            if value in builder.shown or any(
                isinstance(item, Port) for item in node.attrs.get("index", ())
            ):
                break
            value = node.inputs[0]
        value = builder.shown.get(value, (value,))[0]
        array = builder.arrays.get(value)
        return value if array is None else id(owner(array))

    memory = root(tensor.data)
    # A graph built by hand knows its tensors by name: there, a name stands for its node's value.
    known: dict[int, Tensor] = getattr(builder, "tensors", {})
    reachable = _reachable(tensor, lambda data: root(data) == memory, known)
    return [t for t in reachable if t is not settled(tensor)]


def _reachable(tensor: Tensor, shares: Any, known: dict[int, Tensor] = _NONE) -> list[Tensor]:
    if gc.get_freeze_count():
        raise UsageError(
            "a tensor that may have views cannot be written to after gc.freeze()",
            source=where(),
            hint="write to a copy: x = x.copy()",
        )
    candidates = gc.get_referrers(Tensor, Written, Bundle)
    reachable = [
        candidate
        for candidate in candidates
        if (candidate.__class__ is Tensor or candidate.__class__ is Written)
        and candidate is not tensor
        and shares(getattr(candidate, "data", None))
    ]
    if not reachable:
        return reachable
    reference_counts = dict.fromkeys(map(id, reachable), 0)
    seen: set[int] = set()
    for candidate_ in candidates:
        kind = candidate_.__class__
        if kind is Written:
            for state in candidate_._history:
                if id(state) in reference_counts:
                    reference_counts[id(state)] += 1
        if kind is Written or (kind is not Tensor and kind is not Bundle):
            continue
        edge = getattr(candidate_, "edge", None)
        if edge is None or id(edge[2]) in seen:
            continue
        seen.add(id(edge[2]))
        for tensor_ in edge[2]:
            if id(tensor_) in reference_counts:
                reference_counts[id(tensor_)] += 1
    for tensor_ in known.values():
        if id(tensor_) in reference_counts:
            reference_counts[id(tensor_)] += 1
    del candidates
    candidate_ = state = tensor_ = None  # they would be counted
    reachable.append(Tensor.__new__(Tensor))  # no other holder
    counts = [sys.getrefcount(candidate) for candidate in reachable]
    probe = counts.pop()
    reachable.pop()
    del candidate_
    return [
        tensor_
        for tensor_, count in zip(reachable, counts, strict=True)
        if count - reference_counts[id(tensor_)] > probe
    ]


# x[i] += y


_INPLACE = dis.opmap.get("BINARY_OP", -1)
_MOVES = {dis.opmap[opcode] for opcode in ("SWAP", "CACHE", "ROT_TWO", "ROT_THREE")
          if opcode in dis.opmap}  # fmt: skip
_STORES = {dis.opmap[opcode] for opcode in ("STORE_SUBSCR", "STORE_SLICE") if opcode in dis.opmap}


def passing(tensor: Tensor, frame: FrameType) -> bool:
    """Whether ``frame`` runs ``x[i] += y`` and this tensor is its temporary ``x[i]``, held nowhere
    else.

    Python evaluates ``x[i]``, writes to the result, and then stores it to ``x[i]``. Only the store
    matters: the temporary is gone afterwards.
    """
    references = sys.getrefcount(tensor) - _PASSING
    if references == 1 and isinstance(data := tensor.data, Abstract):
        # A graph built by hand knows its tensors by name.
        references -= getattr(data.graph, "tensors", _NONE).get(data.value) is tensor
    return references <= 0 and _stores(frame)


def _stores(frame: FrameType) -> bool:
    code, at = frame.f_code.co_code, frame.f_lasti
    if at < 0 or code[at] != _INPLACE:
        return False
    at += 2
    while code[at] in _MOVES or dis.opname[code[at]] == "EXTENDED_ARG":
        at += 2
    return code[at] in _STORES


_PASSING = 0
_counted: list[int] = []


class _Probe:
    def __iadd__(self, other: Any) -> Any:
        _count(self, sys._getframe(1))
        return self


def _count(probe: Any, frame: FrameType) -> None:
    _counted.append(sys.getrefcount(probe))
    _counted.append(int(_stores(frame)))


class _Box:
    def __getitem__(self, index: Any) -> Any:
        return _Probe()

    def __setitem__(self, index: Any, value: Any) -> None:
        pass


def _calibrate() -> int:
    """References to ``x[i]`` while it is written to: 0 if indistinguishable from a variable."""
    box: Any = _Box()
    box[0] += 1
    passing_count, stored = _counted
    _counted.clear()
    kept = box[0]
    kept += 1
    _, other = _counted
    return passing_count if stored and not other else 0


_PASSING = _calibrate()
