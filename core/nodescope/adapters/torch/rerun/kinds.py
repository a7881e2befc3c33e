"""Kinds of ATen operators, by how an output element depends on input elements.

Invariant: data only. Names lack the namespace, the overload and the underscore of in-place
operators. An operator that is not listed has no kind; its reads are found by running it.
"""

from __future__ import annotations

from typing import Final


def words(text: str) -> frozenset[str]:
    """The names in a text."""
    return frozenset(text.split())


POINTWISE: Final = words(  # of one tensor
    "abs absolute acos acosh asin asinh atan atanh angle bitwise_not ceil clone contiguous conj"
    " conj_physical _conj _neg_view cos cosh deg2rad digamma elu erf erfc erfinv exp exp2 expm1"
    " floor frac gelu hardshrink hardsigmoid hardswish hardtanh i0 isfinite isinf isnan isneginf"
    " isposinf leaky_relu lgamma log log10 log1p log2 log_sigmoid_forward logical_not logit mish"
    " mvlgamma nan_to_num neg negative polygamma positive rad2deg real imag reciprocal relu relu6"
    " round rsqrt selu celu sgn sigmoid sign signbit silu sin sinc sinh softplus softshrink sqrt"
    " square tan tanh threshold trunc fix _to_copy to special_entr special_erfcx special_i0e"
    " special_i1 special_i1e special_log_ndtr special_ndtri special_bessel_j0 special_bessel_j1"
    " special_bessel_y0 special_bessel_y1 special_airy_ai frexp view_as_real_copy alias detach"
    " alias_copy detach_copy lift_fresh lift lift_fresh_copy"
    # of several, which are broadcast
    " add sub subtract rsub mul multiply div divide true_divide floor_divide fmod remainder pow"
    " float_power maximum minimum fmax fmin atan2 arctan2 hypot eq ne gt ge lt le logical_and"
    " logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift"
    " bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ clamp clip clamp_min"
    " clamp_max lerp addcmul addcdiv xlogy special_xlog1py special_zeta logaddexp logaddexp2"
    " copysign heaviside nextafter ldexp gcd lcm igamma igammac complex polar"
    # their derivatives
    " threshold_backward gelu_backward tanh_backward sigmoid_backward silu_backward elu_backward"
    " leaky_relu_backward hardtanh_backward hardsigmoid_backward hardswish_backward"
    " softplus_backward mish_backward logit_backward hardshrink_backward softshrink_backward"
    " log_sigmoid_backward"
)
"""An output element depends on the input elements that are broadcast to its position."""

NOTHING: Final = words(
    "zeros ones full arange linspace logspace eye zeros_like ones_like full_like new_zeros"
    " new_ones new_full zero scalar_tensor tril_indices triu_indices empty empty_like empty_strided"
    " new_empty new_empty_strided rand randn randint randperm rand_like randn_like randint_like"
    " uniform random exponential geometric log_normal cauchy _efficientzerotensor"
)
"""An output element depends on no input element, at most on an input's shape."""

SOURCE: Final = frozenset({"copy", "fill"})
"""An output element depends on the last input alone; the other is overwritten."""

SELECTORS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(
        words(
            "view _unsafe_view _reshape_alias reshape permute transpose t numpy_T movedim expand"
        " expand_as select slice squeeze unsqueeze split split_with_sizes unsafe_split"
        " unsafe_split_with_sizes chunk unbind narrow cat concat stack flip roll repeat tile"
        " unfold as_strided diagonal tril triu constant_pad_nd rot90 fliplr flipud im2col"
        " pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle reflection_pad1d"
        " reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d"
        " select_scatter slice_scatter diagonal_scatter select_backward slice_backward"
        " diagonal_backward upsample_nearest1d upsample_nearest2d upsample_nearest3d"
        " view_copy permute_copy transpose_copy t_copy expand_copy select_copy slice_copy"
        " squeeze_copy unsqueeze_copy split_copy split_with_sizes_copy unbind_copy"
        " as_strided_copy diagonal_copy diag_embed block_diag _pad_circular view_as unflatten"
        " flatten ravel swapaxes swapdims meshgrid hstack vstack dstack"),
        (),
    ),
    "gather": (1,), "index_select": (1,), "take": (1,), "masked_select": (1,), "embedding": (1,),
    "scatter": (1,), "index_copy": (1,), "index_fill": (1,), "masked_scatter": (1,),
    "repeat_interleave": (1,), "take_along_dim": (1,),
}  # fmt: skip
"""Operators that only move elements, with the ports of the inputs that select. ``index`` and
``index_put`` are such operators too; their selectors depend on the attributes."""

PAIRS: Final[dict[tuple[str, int], tuple[int, int]]] = {
    ("mm", 0): (0, 1), ("bmm", 0): (0, 1), ("mv", 0): (0, 1), ("dot", 0): (0, 1),
    ("vdot", 0): (0, 1), ("matmul", 0): (0, 1), ("linear", 0): (0, 1), ("inner", 0): (0, 1),
    ("addmm", 0): (1, 2), ("baddbmm", 0): (1, 2), ("addmv", 0): (1, 2), ("addbmm", 0): (1, 2),
    ("addr", 0): (1, 2), ("_addmm_activation", 0): (1, 2),
    ("convolution", 0): (0, 1), ("_convolution", 0): (0, 1), ("mkldnn_convolution", 0): (0, 1),
    ("conv1d", 0): (0, 1), ("conv2d", 0): (0, 1), ("conv3d", 0): (0, 1),
    ("conv_transpose1d", 0): (0, 1), ("conv_transpose2d", 0): (0, 1),
    ("convolution_backward", 0): (0, 2), ("convolution_backward", 1): (0, 1),
}  # fmt: skip
"""Outputs that are sums of products of two inputs: by operator and output, the two inputs."""

SUMS: Final = words(
    "sum mean trace cumsum avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d"
    " _adaptive_avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d"
    " upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d"
    " adaptive_max_pool2d_backward adaptive_max_pool3d_backward fractional_max_pool2d_backward"
    " embedding_dense_backward nll_loss_backward nll_loss2d_backward avg_pool2d_backward"
    " avg_pool3d_backward _adaptive_avg_pool2d_backward max_pool2d_with_indices_backward"
    " max_pool3d_with_indices_backward unfold_backward col2im embedding_bag index_add scatter_add"
    " index_put _index_put_impl"
    " sum_to_size upsample_nearest2d_backward upsample_bilinear2d_backward"
    " reflection_pad2d_backward replication_pad2d_backward convolution_backward"
)
"""Outputs are weighted sums of the elements of one input."""

SMOOTH: Final = words(
    "_softmax softmax _log_softmax log_softmax logsumexp _logcumsumexp prod cumprod var std"
    " var_mean std_mean norm linalg_vector_norm frobenius_norm native_layer_norm layer_norm"
    " native_group_norm group_norm native_batch_norm batch_norm _native_batch_norm_legit"
    " _native_batch_norm_legit_no_training _batch_norm_with_update _batch_norm_no_update"
    " _fused_rms_norm rms_norm instance_norm local_response_norm"
    " scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu"
    " _scaled_dot_product_attention_math nll_loss_forward nll_loss nll_loss2d_forward nll_loss2d"
    " mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy kl_div soft_margin_loss"
    " binary_cross_entropy_with_logits cross_entropy_loss cosine_similarity _cdist_forward"
    " _softmax_backward_data _log_softmax_backward_data native_layer_norm_backward"
    " native_batch_norm_backward native_group_norm_backward mse_loss_backward"
    " smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward l1_loss_backward"
    " soft_margin_loss_backward _scaled_dot_product_flash_attention_for_cpu_backward"
    " _weight_norm_interface multi_margin_loss multilabel_margin_loss_forward _cdist_backward"
    " glu glu_backward grid_sampler_2d _safe_softmax nansum _fft_r2c _fft_c2c _fft_c2r"
    " convolution_backward diff linalg_cross cov logcumsumexp renorm"
)
"""An output element depends on the elements with a nonzero derivative at generic values."""

WINNERS: Final = words(
    "max min amax amin max_pool1d max_pool2d max_pool2d_with_indices max_pool3d_with_indices"
    " adaptive_max_pool2d adaptive_max_pool3d cummax cummin sort topk kthvalue aminmax"
    " fractional_max_pool2d prelu _prelu_kernel _prelu_kernel_backward max_unpool2d max_unpool3d"
)
"""An output element depends on the elements with a nonzero derivative at the actual values."""

ROWS: Final[dict[str, tuple[int, ...]]] = {
    "native_layer_norm": (1, 2), "native_group_norm": (1, 2), "_fused_rms_norm": (1,),
}  # fmt: skip
"""Outputs that are statistics of rows of the first input."""

CHANNELS: Final[dict[str, tuple[int, ...]]] = {
    "native_batch_norm": (1, 2), "_native_batch_norm_legit": (1, 2),
    "_batch_norm_with_update": (1, 2),
}  # fmt: skip
"""Outputs that are statistics of channels of the first input."""

MATRICES: Final = words(
    "_linalg_solve_ex linalg_inv_ex _linalg_det _linalg_slogdet linalg_qr linalg_cholesky_ex"
    " _linalg_eigh linalg_eig _linalg_svd linalg_lu_factor_ex linalg_lu linalg_ldl_factor_ex"
    " geqrf linalg_matrix_exp cholesky_inverse triangular_solve linalg_solve_triangular"
    " linalg_lu_solve lu_unpack linalg_pinv"
)
"""An output element depends on the whole matrices at the same position of a stack."""

LISTS: Final = words(
    "self other tensors tensor1 tensor2 tensors1 weight weights exponent src grads exp_avgs"
    " exp_avg_sqs max_exp_avg_sqs state_steps momentum_buffer_list state_sums"
)
"""The arguments of ``_foreach_…`` and ``_fused_…`` that are lists of tensors."""
