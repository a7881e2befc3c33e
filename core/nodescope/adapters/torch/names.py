"""Names: nodescope's names of ATen operators, and their families.

Watch rules, *why* and the graph view use these names; an operator that is not listed keeps its own
name. An in-place operator has the name of its out-of-place form; the inputs that it writes are in
`Node.writes`.

Invariant: data only. Operators share a name only if they compute the same from their tensors.
"""

from __future__ import annotations

from typing import Final

_CANONICAL: Final[dict[str, str]] = {
    "absolute": "abs", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin",
    "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh",
    "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negative", "pow": "power",
    "true_divide": "divide", "floor_divide": "floor_divide", "reciprocal": "reciprocal",
    "eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal", "lt": "less",
    "le": "less_equal", "fmod": "fmod", "remainder": "remainder", "clamp": "clip",
    "mm": "matmul", "bmm": "matmul", "mv": "matmul", "dot": "matmul", "matmul": "matmul",
    "_softmax": "softmax", "_log_softmax": "log_softmax", "amax": "max", "amin": "min",
    "native_layer_norm": "layer_norm", "native_group_norm": "group_norm",
    "native_batch_norm": "batch_norm", "_native_batch_norm_legit": "batch_norm",
    "_native_batch_norm_legit_no_training": "batch_norm", "cudnn_batch_norm": "batch_norm",
    "_batch_norm_with_update": "batch_norm", "_batch_norm_no_update": "batch_norm",
    "_fused_rms_norm": "rms_norm",
    "view": "reshape", "_unsafe_view": "reshape", "_reshape_alias": "reshape",
    "t": "transpose", "permute": "transpose", "expand": "broadcast_to",
    "select": "getitem", "slice": "getitem", "index": "getitem", "cat": "concatenate",
    "clone": "copy", "_to_copy": "astype", "copy": "assign", "lift_fresh": "tensor",
    "native_dropout": "dropout", "max_pool2d_with_indices": "max_pool2d",
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d", "nll_loss_forward": "nll_loss",
    "nll_loss2d_forward": "nll_loss", "_scaled_dot_product_flash_attention_for_cpu":
    "scaled_dot_product_attention", "_scaled_dot_product_flash_attention":
    "scaled_dot_product_attention", "_scaled_dot_product_efficient_attention":
    "scaled_dot_product_attention", "_scaled_dot_product_cudnn_attention":
    "scaled_dot_product_attention", "_scaled_dot_product_fused_attention_overrideable":
    "scaled_dot_product_attention", "_scaled_dot_product_attention_math":
    "scaled_dot_product_attention", "_local_scalar_dense": "item", "threshold_backward":
    "relu_grad", "bitwise_not": "invert", "erf": "erf", "sgn": "sign",
}  # fmt: skip

_FAMILIES: Final[dict[str, str]] = {
    "matmul": "matmul addmm addbmm baddbmm addmv addr einsum linear convolution conv1d conv2d"
    " conv3d mkldnn_convolution convolution_backward scaled_dot_product_attention thnn_conv2d"
    " convolution_overrideable mkldnn_linear _trilinear conv_transpose1d conv_transpose2d"
    " cholesky det slogdet qr svd",
    "activation": "relu gelu silu sigmoid tanh erf elu leaky_relu hardtanh"
    " hardswish hardsigmoid softplus mish prelu glu log_sigmoid relu6 celu selu threshold"
    " relu_grad",
    "elementwise": "abs arccos arccosh arcsin arcsinh arctan arctan2 arctanh add subtract multiply"
    " divide negative power reciprocal floor_divide fmod remainder clip sqrt rsqrt square exp exp2"
    " expm1 log log1p log2 log10 sin cos tan sinh cosh erfc erfinv floor ceil round trunc sign"
    " maximum minimum equal not_equal greater greater_equal less less_equal where masked_fill"
    " logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor invert"
    " isnan isinf isfinite isclose lerp addcmul addcdiv nan_to_num clamp_min clamp_max hypot sinc"
    " logaddexp logaddexp2 rsub xlogy digamma lgamma complex real imag conj copysign"
    " deg2rad rad2deg float_power fmax fmin frexp gcd lcm heaviside i0 ldexp nextafter positive"
    " signbit ones_like zeros_like",
    "reduction": "sum mean max min prod std var var_mean std_mean any all argmax argmin logsumexp"
    " norm linalg_vector_norm count_nonzero cumsum cumprod median mode topk kthvalue"
    " aminmax bincount histc histogram nansum nanmean cummax cummin item",
    "norm": "softmax log_softmax layer_norm group_norm batch_norm instance_norm rms_norm"
    " local_response_norm",
    "layout": "astype reshape transpose broadcast_to squeeze unsqueeze concatenate stack split"
    " split_with_sizes chunk unbind flip roll repeat tile unfold as_strided copy detach alias"
    " contiguous flatten movedim diagonal tril triu constant_pad_nd pad pixel_shuffle view_as_real"
    " view_as_complex narrow select_backward slice_backward updated_view im2col col2im",
    "index": "getitem gather scatter scatter_add index_select index_put index_add take"
    " masked_select masked_scatter embedding embedding_dense_backward nonzero take_along_dim"
    " index_copy index_fill"
    " sort argsort unique argwhere embedding_bag one_hot searchsorted bucketize select_scatter"
    " slice_scatter",
    "random": "dropout rand randn randint normal uniform bernoulli multinomial randperm exponential"
    " rand_like randn_like randint_like random",
    "loss": "nll_loss cross_entropy mse_loss binary_cross_entropy binary_cross_entropy_with_logits"
    " smooth_l1_loss huber_loss l1_loss kl_div cosine_embedding_loss soft_margin_loss _ctc_loss",
    "update": "assign fill zero",
}
_FAMILY_OF: Final = {op: family for family, ops in _FAMILIES.items() for op in ops.split()}
_POOLS: Final = ("pool", "upsample", "interpolate", "grid_sampler")


def canonical_name(name: str) -> str:
    """The name of an operator's node.

    Args:
        name: The operator's name without namespace and overload, such as ``add_``.
    """
    if name in _CANONICAL:
        return _CANONICAL[name]
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if plain.startswith("_foreach_") or plain.startswith("_fused_"):
        return plain.lstrip("_")
    known = _CANONICAL.get(plain)
    return known if known is not None else label_of(plain)


def family_of(op: str, name: str) -> str:
    """The family of an operator, by its canonical name and its own name.

    A backward operator has the family of its forward operator.
    """
    known = _FAMILY_OF.get(op)
    if known:
        return known
    for suffix in ("_backward", "_backward_data"):
        if name.endswith(suffix):
            return family_of(canonical_name(name.removesuffix(suffix)), "")
    if op.startswith(("foreach_", "fused_")):
        return "update"
    return "reduction" if any(part in op for part in _POOLS) else "other"


_LABELS: Final[dict[str, str]] = {
    "_to_copy": "to", "_local_scalar_dense": "item", "nll_loss_forward": "nll_loss",
    "nll_loss2d_forward": "nll_loss", "_reshape_alias": "view", "_native_batch_norm_legit":
    "batch_norm", "_native_batch_norm_legit_no_training": "batch_norm",
    "max_pool2d_with_indices": "max_pool2d", "convolution_overrideable": "convolution",
}  # fmt: skip


def label_of(name: str) -> str:
    """The name that users know an operator by: ``_unsafe_view`` is ``unsafe_view``, ``add_`` stays.

    Args:
        name: The operator's name without namespace and overload.
    """
    if name in _LABELS:
        return _LABELS[name]
    if name.startswith("_scaled_dot_product"):
        suffix = "_backward" if name.endswith("_backward") else ""
        return f"scaled_dot_product_attention{suffix}"
    return name.removeprefix("native_").lstrip("_").removesuffix("_data") or name
