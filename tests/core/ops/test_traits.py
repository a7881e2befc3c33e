"""Traits of ops: each is of an op that there is, and true of what the op computes."""

from __future__ import annotations

import numpy as np
import pytest

from nodescope import ops
from nodescope.ops.reading import KINDS
from nodescope.ops.traits import names, traits_of
from tests.parts import in_parts

# Operations of other libraries' vocabularies, or of compiler rewrites.
_NOT_OPS = {"keep", "choose"}


def test_every_name_is_an_ops() -> None:
    known = {op.name for op in ops.all_ops()}
    assert names() - known <= _NOT_OPS
    assert traits_of("an op that there is not") == traits_of("") == type(traits_of(""))()


@in_parts(1)
@pytest.mark.parametrize("name", sorted(name for name in names() if traits_of(name).reads))
def test_kinds_are_known(name: str) -> None:
    assert traits_of(name).reads in {*KINDS, "branch"}


@pytest.mark.parametrize("name", sorted(name for name in names() if traits_of(name).domain))
def test_outside_of_the_domain_is_nan(name: str) -> None:
    domain, impl = traits_of(name).domain, ops.get(name).impl
    assert domain is not None
    with np.errstate(all="ignore"):
        assert np.isnan(impl(np.array(domain.low - 0.5)))
        assert not np.isnan(impl(np.array(domain.low)))
        assert domain.high == np.inf or np.isnan(impl(np.array(domain.high + 0.5)))


@pytest.mark.parametrize("name", sorted(n for n in names() if traits_of(n).pole is not None))
def test_at_the_pole_is_inf_and_below_nan(name: str) -> None:
    pole, impl = traits_of(name).pole, ops.get(name).impl
    assert pole is not None
    with np.errstate(all="ignore"):
        assert np.isinf(impl(np.array(pole)))
        assert np.isnan(impl(np.array(pole - 1)))
