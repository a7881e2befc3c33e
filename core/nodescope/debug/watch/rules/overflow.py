"""Values that are not finite: MindInsight's overflow conditions and SageMaker's ExplodingTensor."""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.measures import nonfinite
from nodescope.debug.watch.observation import Sight, Target
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, flag, plain

_NAN, _INF = float("nan"), float("inf")
_EXAMPLES = (
    Example([[1.0, 2.0], [1.0, _NAN], [_INF, 0.0], [-_INF, _NAN]], (2, 3, 4)),
    Example([[1, 2], [True, False], []], ()),
    Example([[1 + 1j, complex(0, _NAN)]], (1,)),
    Example([_NAN, 3.0], (1,), about="a scalar"),
)

_TABLE: tuple[tuple[str, Target, str, tuple[str, ...]], ...] = (
    ("tensor_overflow", "values", "a value has NaN or Inf elements", ("TO",)),
    ("weight_overflow", "weights", "a weight has NaN or Inf elements", ("WO",)),
    (
        "gradient_exploding", "gradients", "a gradient has NaN or Inf elements",
        ("GE", "grad_explode"),
    ),
)  # fmt: skip


def _exploding(sight: Sight, settings: Settings) -> Finding | None:
    return nonfinite(sight, inf=not settings["only_nan"])


register(
    *(
        Rule(
            name,
            about,
            plain(lambda sight, settings: nonfinite(sight)),
            (applies,),
            origin="MindInsight",
            aliases=aliases,
            examples=_EXAMPLES,
        )
        for name, applies, about, aliases in _TABLE
    ),
    Rule(
        "exploding_tensor",
        "a value has NaN or Inf elements, or NaN alone",
        plain(_exploding),
        parameters=(flag("only_nan", False, "look for NaN only"),),
        origin="SageMaker",
        aliases=("ExplodingTensor",),
        examples=(*_EXAMPLES, Example([[_INF], [_NAN]], (2,), {"only_nan": True})),
    ),
)
