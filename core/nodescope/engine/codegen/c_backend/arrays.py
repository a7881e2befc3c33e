"""Reading Python's tuples, lists and floats and NumPy's arrays from C, without their headers.

One call that hands over a tuple of arrays costs less than one that hands over each pointer. The
offsets of the fields are fixed for one build of CPython and NumPy but differ between builds, so
they are determined here and verified on objects with known contents.

Invariant: the snippet is used only if `missing` returns ``""``; C only reads, and keeps no
reference.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

import numpy as np

_HEAD: int = object.__basicsize__
_TUPLE: int = tuple.__basicsize__
_WORD = 8
_FLAGS = _HEAD + 6 * _WORD  # after data, nd, dimensions, strides, base and descr

SNIPPET = f"""\
/* Fields of Python's objects, as nodescope proved them on this interpreter. */
#define NS_FIELD(type, object, offset) (*(type *)((char *)(object) + (offset)))
NS_INLINE void *ns_item(void *tuple, i64 i) {{ return (&NS_FIELD(void *, tuple, {_TUPLE}))[i]; }}
NS_INLINE void *ns_list_item(void *list, i64 i) {{
  return NS_FIELD(void **, list, {_HEAD + _WORD})[i];
}}
NS_INLINE i64 ns_items(void *sequence) {{ return NS_FIELD(i64, sequence, {_HEAD}); }}
NS_INLINE f64 ns_python_float(void *object) {{ return NS_FIELD(f64, object, {_HEAD}); }}
NS_INLINE void *ns_array_data(void *array) {{ return NS_FIELD(void *, array, {_HEAD}); }}
NS_INLINE int ns_array_rank(void *array) {{ return NS_FIELD(int, array, {_HEAD + _WORD}); }}
NS_INLINE i64 *ns_array_shape(void *array) {{
  return NS_FIELD(i64 *, array, {_HEAD + 2 * _WORD});
}}
NS_INLINE i64 *ns_array_strides(void *array) {{  /* in bytes */
  return NS_FIELD(i64 *, array, {_HEAD + 3 * _WORD});
}}
NS_INLINE int ns_array_contiguous(void *array) {{  /* in C's order, and aligned */
  return (NS_FIELD(int, array, {_FLAGS}) & 0x101) == 0x101;
}}
"""
"""C that reads the fields; goes after `prelude.HEAD`. Objects are ``void *``: `ctypes.py_object`.

The caller holds references to all objects, and no list changes during the call.
"""


@cache
def missing() -> str:
    """Why C cannot read arrays here, or ``""``."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != _WORD:
        return "the object layout is known only for 64-bit CPython"
    array = np.arange(24.0).reshape(2, 3, 4)[:, ::2]
    if np.ndarray.__basicsize__ < _FLAGS + 4 or list.__basicsize__ < _HEAD + 2 * _WORD:
        return "objects of this Python are smaller than expected"
    at = id(array)
    pair, both = (array, 7), [array, 7]
    addresses = [id(array), id(7)]
    known = (
        _words(id(pair) + _TUPLE, 2) == addresses
        and _words(id(pair) + _HEAD, 1) == _words(id(both) + _HEAD, 1) == [2]
        and _words(_words(id(both) + _HEAD + _WORD, 1)[0], 2) == addresses
        and _words(at + _HEAD, 1) == [array.ctypes.data]
        and ctypes.c_int.from_address(at + _HEAD + _WORD).value == array.ndim
        and _words(_words(at + _HEAD + 2 * _WORD, 1)[0], 3) == list(array.shape)
        and _words(_words(at + _HEAD + 3 * _WORD, 1)[0], 3) == list(array.strides)
        and ctypes.c_int.from_address(at + _FLAGS).value == array.flags.num
        and ctypes.c_double.from_address(id(_FLOAT) + _HEAD).value == _FLOAT
    )
    return "" if known else "arrays of this Python or NumPy have an unknown layout"


_FLOAT = 0.7251


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address))
