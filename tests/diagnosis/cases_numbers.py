"""Faults in numbers: what overflows, vanishes, is rounded away or is not a number."""

from __future__ import annotations

from typing import Final

from tests.diagnosis.case import LOSS, Broken

NUMBERS: Final = (
    Broken(
        "half_precision",
        "float16 updates too small to change the weights",
        mend=(("np.float16(1e-3)", "np.float16(1e-1)"),),
        goal="loss < 0.01",
        lines=("ns.assign(w",),
        about=(r"^\S*(weight|update|change|absor)\S* .*", LOSS),
        words=r"(?i)absorb|unchanged|without effect|too small|no effect|lost|a \+ b|round",
    ),
    Broken(
        "long_flight",
        "a float32 clock too large for its steps",
        mend=(("np.float32(40_000_000.0)", "np.float64(40_000_000.0)"),),
        goal="elapsed > 6",
        lines=("time = time + dt",),
        nodes=("clock/.*",),
    ),
)
