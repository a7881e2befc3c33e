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

/* Whether arrays have the shapes and dtypes of an entry's values; -1 with an exception set. */
static int all_specified(Calls *calls, PyObject *entry, PyObject *const *arrays, Py_ssize_t count) {
    PyObject *values = SLOT(entry, calls->offset[ENTRY_VALUES]);
    int same = values && PyTuple_Check(values) && PyTuple_Size(values) == count;
    for (Py_ssize_t i = 0; same == 1 && i < count; i++) {
        PyObject *spec = PyObject_GetAttr(PyTuple_GetItem(values, i), names.spec);
        same = spec ? as_specified(calls, spec, arrays[i]) : -1;
        Py_XDECREF(spec);
    }
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
