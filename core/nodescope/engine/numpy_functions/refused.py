"""NumPy's functions that are not traced: why, by kind, and what to write instead.

Invariant: functions listed here are not traced; `tools/ops_table.py` checks that all others are.
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """Functions left out for the same reason.

    Attributes:
        reason: The reason.
        hint: What to do instead, for an error message.
        names: Names of the functions, separated by spaces.
    """

    reason: str
    hint: str
    names: str


LEAVE = "use .numpy() first to leave the graph"

KINDS: dict[str, Kind] = {
    "dates": Kind(
        "tensors hold numbers", "give it arrays: x.numpy()",
        "busday_count busday_offset datetime_as_string datetime_data is_busday isnat",
    ),
    "legacy polynomials": Kind(
        "superseded by np.polynomial in NumPy itself; np.polyval is traced",
        "np.polyval and np.convolve are traced; or leave the graph with .numpy()",
        "poly polyadd polyder polydiv polyfit polyint polymul polysub roots",
    ),
    "files and text": Kind(
        "they read or write files, or format numbers", "write the array: x.numpy()",
        "fromfile fromregex fromstring genfromtxt load loadtxt save savetxt savez savez_compressed "
        "format_float_positional format_float_scientific base_repr binary_repr typename info",
    ),
    "making arrays from objects": Kind(
        "a tensor leaves the graph only by .numpy(); nodescope.tensor makes one",
        "nodescope.tensor makes tensors; np.stack joins them; x.numpy() leaves the graph",
        "array asanyarray asarray_chkfinite ascontiguousarray asfortranarray asmatrix bmat "
        "frombuffer fromfunction fromiter require",
    ),
    "functions that take functions": Kind(
        "they call Python once per element; nodescope.map and scan are traced",
        "nodescope.map and nodescope.scan are traced", "frompyfunc nested_iters",
    ),
    "constants computed from plain numbers": Kind(
        "they take no tensor: wrap the result in nodescope.constant",
        "it takes numbers: float(x) and int(x) leave the graph",
        "bartlett blackman geomspace hamming hanning kaiser indices diag_indices mask_indices "
        "tril_indices triu_indices fftfreq rfftfreq broadcast_shapes",
    ),
    "histograms in several dimensions": Kind(
        "counts have no gradient; np.histogram and np.bincount are traced",
        "np.histogram and np.bincount are traced; or leave the graph with .numpy()",
        "histogram2d histogramdd",
    ),
    "bits packed into bytes": Kind(
        "uint8 streams, not numerical programs", "shift and mask with >> and &, or leave the graph "
        "with .numpy()", "packbits unpackbits",
    ),
    "functions whose result dtype depends on values": Kind(
        "use .real where intended", "use x.real where the imaginary part is zero",
        "real_if_close",
    ),
    "queries about NumPy and dtypes": Kind(
        "they take no arrays", LEAVE,
        "get_include get_printoptions getbufsize geterr geterrcall isdtype isfortran "
        "isscalar issubdtype iterable mintypecode printoptions promote_types set_printoptions "
        "setbufsize seterr seterrcall show_config show_runtime test",
    ),
    "deprecated": Kind("removed or deprecated", LEAVE, "in1d row_stack trapz"),
}  # fmt: skip

KIND_OF = {name: kind for kind, group in KINDS.items() for name in group.names.split()}
"""The kind of a function, by its name."""


def hint_of(name: str) -> str:
    """What to do instead of a function, or ``""``."""
    kind = KIND_OF.get(name)
    return "" if kind is None else KINDS[kind].hint
