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

/* Whether an array has the shape and dtype of a spec; -1 with an exception set. */
static int as_specified(Calls *calls, PyObject *spec, PyObject *array) {
    PyObject *known = PyObject_GetAttr(spec, names.shape), *dtype = NULL;
    int same = known ? has_shape(calls, array, known) : -1;
    Py_XDECREF(known);
    if (same != 1) return same;
    dtype = is_readable(calls, array) ? Py_NewRef(ARRAY_OF(array)->dtype)
                                      : PyObject_GetAttr(array, names.dtype);
    if (!dtype) return -1;
    if (dtype != calls->object[SPELLED]) {
        PyObject *spelling =
            PyObject_CallMethodObjArgs(calls->object[TRACER], names.dtype_name, dtype, NULL);
        if (spelling) {
            keep(&calls->object[SPELLED], dtype);
            keep(&calls->object[SPELLING], spelling);
        }
        Py_XDECREF(spelling);
        same = spelling ? 1 : -1;
    }
    Py_DECREF(dtype);
    if (same < 0 || !(known = PyObject_GetAttr(spec, names.dtype))) return -1;
    same = PyObject_RichCompareBool(calls->object[SPELLING], known, Py_EQ);
    Py_DECREF(known);
    return same;
}

/* Emit the new shape or dtype of a result if it has changed; -1 with an exception set. */
static int reshape(Calls *calls, PyObject *entry, PyObject *array) {
    PyObject *values = SLOT(entry, calls->offset[ENTRY_VALUES]);
    if (values && PyTuple_Check(values) && PyTuple_Size(values) == 1) {
        PyObject *spec = PyObject_GetAttr(PyTuple_GetItem(values, 0), names.spec);
        int same = spec ? as_specified(calls, spec, array) : -1;
        Py_XDECREF(spec);
        if (same) return same < 0 ? -1 : 0;
    }
    PyObject *told =
        PyObject_CallMethodObjArgs(calls->object[TRACER], names.reshape, entry, array, NULL);
    Py_XDECREF(told);
    return told ? 0 : -1;
}

#endif
