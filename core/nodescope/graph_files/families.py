"""The families of foreign operators, which determine their colours.

Invariant: data only; an operator that is not listed is ``other``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# The first pattern that matches decides; the operator's name is lower case without underscores.
_RULES: Final = tuple(
    (family, re.compile(pattern))
    for family, pattern in (
        ("norm", r"norm|lrn$"),
        ("loss", r"loss|crossentropy|nllloss|^bce"),
        ("random", r"random|dropout|bernoulli|multinomial|truncatednormal"),
        ("update", r"^assign|^apply|^resourceapply|assign(add|sub)?variableop|^adam|^sgd"),
        ("communication", r"allreduce|allgather|broadcastto?send|collective|^send|^recv|nccl"),
        ("control", r"^(if|while|loop|scan|case|switch|merge|enter|exit|nextiteration|noop)$"
                    r"|partitionedcall|statelessif|statelesswhile|^loopcond"),
        ("matmul", r"matmul|gemm|^conv|conv[123]d|depthwise|einsum|^linear|^dense|addmm|^mm|^bmm|"
                   r"attention|lstm|gru|^rnn|mmbackward|fullyconnected"),
        ("activation", r"relu|gelu|sigmoid|tanh|softmax|softplus|softsign|^elu|selu|celu|mish|"
                       r"swish|silu"),
        ("reduction", r"^reduce|^(sum|mean|max|min|prod|all|any|argmax|argmin|cumsum|topk|sort)"
                      r"(v\d)?$|pool|logsumexp|bincount|sumbackward|meanbackward"),
        ("index", r"gather|scatter|slice|embedding|onehot|nonzero|^where$|^compress|lookup|select"),
        ("layout", r"reshape|transpose|permute|concat|split|squeeze|flatten|expand|^tile|^pad|"
                   r"pack|stack|identity|^shape|^cast|resize|upsample|spacetodepth|depthtospace|"
                   r"broadcast|reverse|^view|^t(backward\d?)?$|^size|^rank|^copy|constantofshape"),
        ("elementwise", r"^(add|sub|mul|div|realdiv|floordiv|pow|exp|log|sqrt|rsqrt|neg|abs|sin|"
                        r"cos|tan|erf|floor|ceil|round|sign|square|maximum|minimum|clip|equal|less|"
                        r"greater|not|and|or|xor|logical|mod|reciprocal|bias|isnan|isinf|range|"
                        r"squareddifference|fill)"),
    )
)  # fmt: skip


@lru_cache(maxsize=4096)
def family_of(op: str) -> str:
    """The family of an operator, by its name."""
    name = op.rpartition("::")[2].rpartition(".")[2].lower().replace("_", "")[:80]
    return next((family for family, rule in _RULES if rule.search(name)), "other")
