"""Refusals: recognises by name the recorded nodes that would not give the same result again.

Invariant: data and plain functions; PyTorch is not imported. The process that runs PyTorch also
checks the operator's tags.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from typing import Any, Final

from nodescope.adapters.torch.rerun.kinds import words
from nodescope.ir.capabilities import Framework
from nodescope.ir.graph import Node

_RANDOM: Final = words(
    "alpha_dropout bernoulli binomial cauchy dropout exponential feature_alpha_dropout"
    " feature_dropout geometric gru log_normal lstm multinomial native_dropout normal"
    " normal_functional poisson rand rand_like randint randint_like randn randn_like random"
    " randperm rnn_relu rnn_tanh rrelu rrelu_with_noise rrelu_with_noise_functional uniform"
    " scaled_dot_product_attention _scaled_dot_product_attention_math"
    " _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu"
    " _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention"
    " _scaled_dot_product_fused_attention_overrideable _fused_dropout _sample_dirichlet"
    " _standard_gamma _flash_attention_forward _efficient_attention_forward _cudnn_rnn miopen_rnn"
    " _cudnn_attention_forward _cudnn_init_dropout_state _fill_mem_eff_dropout_mask_"
    " _flash_attention_forward_no_dropout_inplace _lstm_mps _nested_tensor_softmax_with_shape"
    " _triton_scaled_dot_attention _scaled_dot_product_attention_math_for_mps"
    " _cudnn_attention_backward _scaled_dot_product_cudnn_attention_backward"
    " _scaled_dot_product_efficient_attention_backward _fused_sdp_choice"
)
"""Names of operators that draw random numbers, without the underscore of in-place ones."""
_NEVER: Final = frozenset({"_fused_sdp_choice", "_nested_tensor_softmax_with_shape"})
# An operator draws nothing if one of these attributes has this value.
_UNLESS: Final[tuple[tuple[str, Any], ...]] = (
    ("dropout_p", 0), ("dropout", 0), ("p", 0), ("train", False), ("training", False),
)  # fmt: skip
# These operators draw nothing if all those attributes are missing.
_OFF: Final = words(
    "scaled_dot_product_attention _scaled_dot_product_attention_math"
    " _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu"
    " _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention"
    " _scaled_dot_product_fused_attention_overrideable"
    " _scaled_dot_product_efficient_attention_backward rrelu rrelu_with_noise"
)
_EMPTY: Final = words(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided empty_quantized"
    " resize resize_as"
)
_SPARSE: Final = ("sparse", "coalesce", "_nested", "quantize")
GENERATOR_STATE: Final = "generator_state"
"""The attribute of an execution with the generator's state before it drew."""
_HINT: Final = "pip install 'nodescope[torch]'"


def short_name(native: str) -> str:
    """An operator's name without namespace and overload: ``add_`` of ``aten::add_.Tensor``."""
    return native.partition("::")[2].partition(".")[0]


def plain_name(native: str) -> str:
    """`short_name` without the underscore of an in-place operator."""
    name = short_name(native)
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def refusal(node: Node, attrs: Mapping[str, Any], framework: Framework | None) -> str:
    """Why a node cannot be run again, or ``""``.

    Args:
        node, attrs: The node, and its arguments in an execution.
        framework: The PyTorch that was recorded, if known.
    """
    if node.op == "updated_view":
        return ""
    namespace = node.native.partition("::")[0]
    if namespace != "aten":
        return f"it is no operator of PyTorch's own, but of {namespace or 'somebody else'}"
    if node.device != "cpu":
        return f"it ran on {node.device}, and nodes are run again on the processor alone"
    name = plain_name(node.native)
    if name in _EMPTY:
        return "its elements are whatever was in the memory"
    if any(part in name for part in _SPARSE):
        return "its tensors are not dense, and are recorded as if they were"
    for argument, value in attrs.items():
        if isinstance(value, str) and value.startswith(("sparse", "jagged", "_mkldnn", "quint")):
            return f"the tensor {argument} is {value}, and is recorded as dense"
    if draws(name, attrs) and GENERATOR_STATE not in attrs:
        return "it draws random numbers, and the state of PyTorch's generator is not recorded"
    return _installed(framework.version if framework is not None else "")


def draws(name: str, attrs: Mapping[str, Any]) -> bool:
    """Whether an operator draws random numbers, by its `plain_name`."""
    if name not in _RANDOM or name in _NEVER:
        return False
    for attribute, value in _UNLESS:
        if attribute in attrs and attrs[attribute] == value:
            return False
    return name not in _OFF or any(attribute in attrs for attribute, _ in _UNLESS)


@functools.cache
def _installed(recorded: str) -> str:
    try:
        installed = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        installed = ""
    if not installed or importlib.util.find_spec("torch") is None:
        return f"PyTorch is not installed beside nodescope here: {_HINT}"
    one, other = recorded.partition("+")[0], installed.partition("+")[0]
    if recorded and one != other:
        return (
            f"it was recorded with PyTorch {one}, and {other} is installed here, which may round "
            f"otherwise: pip install torch=={one}"
        )
    return ""
