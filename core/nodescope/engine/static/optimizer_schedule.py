"""Optimizer schedule: the numbers that an optimizer feeds to each step, apart from its parameters.

Invariant: the n-th call of a program gets the same numbers as the n-th step of the optimizer.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

from nodescope.engine import optim
from nodescope.engine.source import where
from nodescope.errors import GraphError

_Beta = Annotated[float, msgspec.Meta(ge=0, lt=1)]


class _SGD(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="SGD"):
    lr: float
    momentum: float
    weight_decay: float
    steps: int


class _Adam(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="Adam"):
    lr: float
    betas: tuple[_Beta, _Beta]
    eps: float
    steps: int


class _AdamW(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="AdamW"):
    lr: float
    betas: tuple[_Beta, _Beta]
    eps: float
    weight_decay: float
    steps: int


class Host(msgspec.Struct, forbid_unknown_fields=True):
    """One optimizer step within the program: the optimizer's position, and its numbers by value
    id.
    """

    optimizer: int
    names: dict[int, str]


Settings = _SGD | _Adam | _AdamW
_KINDS: dict[type[Any], Any] = {optim.SGD: _SGD, optim.Adam: _Adam, optim.AdamW: _AdamW}


class OptimizerSchedule:
    """Optimizers without parameters, and the program's inputs that take their numbers.

    Args:
        optimizers: Objects with `Optimizer.rates` and ``steps`` that nothing else uses.
        hosts: The steps of one call, in order.
    """

    def __init__(self, optimizers: Iterable[Any], hosts: Iterable[Host]) -> None:
        self._optimizers, self.hosts = list(optimizers), list(hosts)

    def advance(self) -> dict[int, float]:
        """Count the next call's steps; return their numbers by value id of the program's inputs."""
        rates_by_value: dict[int, float] = {}
        for host in self.hosts:
            optimizer = self._optimizers[host.optimizer]
            optimizer.steps += 1
            rates: Mapping[str, float] = optimizer.rates()
            rates_by_value.update({value: float(rates[name]) for value, name in host.names.items()})
        return rates_by_value

    def plain(self) -> dict[str, Any]:
        """The schedule for a file. Raises `GraphError` for optimizers that a file cannot
        represent.
        """
        optimizers = []
        for optimizer in self._optimizers:
            kind = _KINDS.get(type(optimizer))
            if kind is None:
                raise GraphError(
                    f"a file cannot hold the steps of the optimizer {type(optimizer).__name__}",
                    source=where(), hint="save the program without its training part",
                )  # fmt: skip
            settings = {name: getattr(optimizer, name) for name in kind.__struct_fields__}
            optimizers.append({"kind": type(optimizer).__name__, **settings})
        hosts = [{"optimizer": host.optimizer, "names": {str(k): v for k, v in host.names.items()}}
                 for host in self.hosts]  # fmt: skip
        return {"optimizers": optimizers, "hosts": hosts}


def schedule_of(owners: Iterable[Any], names: Iterable[dict[int, str]]) -> OptimizerSchedule:
    """The current schedule of optimizers; ``owners`` has one for each step of a call."""
    kept: dict[int, int] = {}
    optimizers: list[Any] = []
    hosts = []
    for owner, name in zip(owners, names, strict=True):
        if id(owner) not in kept:
            kept[id(owner)] = len(optimizers)
            optimizers.append(copy.copy(owner))
            optimizers[-1].parameters, optimizers[-1]._state = [], []
        hosts.append(Host(kept[id(owner)], name))
    return OptimizerSchedule(optimizers, hosts)


def read_schedule(
    settings: Iterable[Settings], hosts: Iterable[Host], inputs: Iterable[int]
) -> OptimizerSchedule:
    """A schedule from a file. Raises `GraphError` if its parts do not fit together."""
    optimizers: list[Any] = []
    for setting in settings:
        kind: Any = next(k for k, other in _KINDS.items() if other is type(setting))
        optimizer = kind.__new__(kind)
        vars(optimizer).update(msgspec.structs.asdict(setting))
        optimizers.append(optimizer)
    schedule = OptimizerSchedule(optimizers, hosts)
    known = set(inputs)
    for host in schedule.hosts:
        if not 0 <= host.optimizer < len(optimizers) or not known.issuperset(host.names):
            raise GraphError("a step of an optimizer is of an unknown optimizer or input")
        unknown = set(host.names.values()) - set(optimizers[host.optimizer].rates())
        if unknown:
            raise GraphError(f"the optimizer has no number {min(unknown)!r}")
    return schedule
