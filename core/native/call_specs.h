/* Shapes and dtypes of values, and when they have changed. Included only by calls.c. */
#ifndef NODESCOPE_CALL_SPECS_H
#define NODESCOPE_CALL_SPECS_H

#include "array_layout.h"

/* Whether an array may be read as the structure of array_layout.h. */
static int is_readable(Calls *calls, PyObject *array) {
    return calls->object[PLAIN] != Py_None && (PyObject *)Py_TYPE(array) == calls->object[ARRAY];
}

/* Whether an array has a shape; -1 with an exception set. */
static int has_shape(Calls *calls, PyObject *array, PyObject *shape) {
    if (is_readable(calls, array) && PyTuple_Check(shape)) {
        int i = 0, many = ARRAY_OF(array)->dimensions;
        if (PyTuple_Size(shape) != many) return 0;
        while (i < many && is_number(shape, i, ARRAY_OF(array)->shape[i])) i++;
        return i == many;
    }
    PyObject *own = PyObject_GetAttr(array, names.shape);
    int same = own ? PyObject_RichCompareBool(own, shape, Py_EQ) : -1;
    Py_XDECREF(own);
    return same;
}

/* The name of an array's dtype, borrowed; NULL with an exception set. */
static PyObject *spelled(Calls *calls, PyObject *array) {
    PyObject *dtype = is_readable(calls, array) ? Py_NewRef(ARRAY_OF(array)->dtype)
                                                : PyObject_GetAttr(array, names.dtype);
    if (!dtype) return NULL;
    int known = dtype == calls->object[SPELLED];
    PyObject *spelling = NULL;
    if (!known &&
        (spelling = PyObject_CallMethodObjArgs(calls->object[TRACER], names.dtype_name, dtype, NULL))) {
        keep(&calls->object[SPELLED], dtype);
        keep(&calls->object[SPELLING], spelling);
        known = 1;
    }
    Py_XDECREF(spelling);
    Py_DECREF(dtype);
    return known ? calls->object[SPELLING] : NULL;
}

/* Whether an array has the shape and dtype of a spec; -1 with an exception set. */
static int as_specified(Calls *calls, PyObject *spec, PyObject *array) {
    PyObject *known = PyObject_GetAttr(spec, names.shape), *spelling;
    int same = known ? has_shape(calls, array, known) : -1;
    Py_XDECREF(known);
    if (same != 1) return same;
    if (!(spelling = spelled(calls, array)) || !(known = PyObject_GetAttr(spec, names.dtype))) return -1;
    same = PyObject_RichCompareBool(spelling, known, Py_EQ);
    Py_DECREF(known);
    return same;
}

/* The place of an entry's values among the matches. */
static Match *match_of(Calls *calls, PyObject *values) {
    uint64_t address = (uint64_t)(uintptr_t)values >> 4;
    return &calls->match[address * 0x9e3779b97f4a7c15u >> 32 & (MATCHES - 1)];
}

/* Whether an array is known to have the shape and dtype of an entry's only value. */
static int is_match(const Match *match, PyObject *values, PyObject *array) {
    const Array *known = ARRAY_OF(array);
    if (match->values != values || match->dtype != known->dtype || match->dimensions != known->dimensions)
        return 0;
    int axis = 0;
    while (axis < known->dimensions && match->shape[axis] == known->shape[axis]) axis++;
    return axis == known->dimensions;
}

/* Remember that an array has the shape and dtype of an entry's only value. */
static void remember_match(Match *match, PyObject *values, PyObject *array) {
    const Array *known = ARRAY_OF(array);
    if (known->dimensions > FEW_AXES) return;
    match->dimensions = known->dimensions;
    for (int axis = 0; axis < known->dimensions; axis++) match->shape[axis] = known->shape[axis];
    keep(&match->dtype, known->dtype);
    keep(&match->values, values);
}

/* Whether arrays have the shapes and dtypes of an entry's values; -1 with an exception set. */
static int all_specified(Calls *calls, PyObject *entry, PyObject *const *arrays, Py_ssize_t count) {
    PyObject *values = SLOT(entry, calls->offset[ENTRY_VALUES]);
    Match *match = count == 1 && is_readable(calls, arrays[0]) ? match_of(calls, values) : NULL;
    if (match && is_match(match, values, arrays[0])) return 1;
    int same = values && PyTuple_Check(values) && PyTuple_Size(values) == count;
    for (Py_ssize_t i = 0; same == 1 && i < count; i++) {
        PyObject *spec = PyObject_GetAttr(PyTuple_GetItem(values, i), names.spec);
        same = spec ? as_specified(calls, spec, arrays[i]) : -1;
        Py_XDECREF(spec);
    }
    if (match && same == 1) remember_match(match, values, arrays[0]);
    return same;
}

/* Emit the new shapes and dtypes of results if one has changed; -1 with an exception set. */
static int reshape(Calls *calls, PyObject *entry, PyObject *const *arrays, Py_ssize_t count) {
    int same = all_specified(calls, entry, arrays, count);
    if (same) return same < 0 ? -1 : 0;
    PyObject *shapes = PyTuple_New(count), *told = NULL;
    for (Py_ssize_t i = 0; shapes && i < count; i++) {
        PyObject *shape = PyObject_GetAttr(arrays[i], names.shape);
        PyObject *spelling = shape ? spelled(calls, arrays[i]) : NULL;
        PyObject *both = spelling ? PyTuple_Pack(2, shape, spelling) : NULL;
        Py_XDECREF(shape);
        if (!both || PyTuple_SetItem(shapes, i, both) < 0) Py_CLEAR(shapes);
    }
    if (shapes)
        told = PyObject_CallMethodObjArgs(calls->object[TRACER], names.reshape, entry, shapes, NULL);
    Py_XDECREF(shapes);
    Py_XDECREF(told);
    return told ? 0 : -1;
}

#endif
