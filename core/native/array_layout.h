/* NumPy arrays, read at the places that NumPy's binary interface fixes for extensions. */
#ifndef NODESCOPE_ARRAY_LAYOUT_H
#define NODESCOPE_ARRAY_LAYOUT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <string.h>

/* `PyArrayObject_fields`, which is the same in NumPy 1 and 2. */
typedef struct {
    PyObject_HEAD
    char *data;
    int dimensions;
    Py_ssize_t *shape, *strides;
    PyObject *base, *dtype;
    int flags;
    PyObject *weak_references;
} Array;

#define ARRAY_OF(object) ((Array *)(object))

/* Whether two arrays have the same shape. */
static inline int same_shape(PyObject *one, PyObject *other) {
    Array *a = ARRAY_OF(one), *b = ARRAY_OF(other);
    return a->dimensions == b->dimensions &&
           (a->dimensions == 0 ||
            memcmp(a->shape, b->shape, sizeof(Py_ssize_t) * (size_t)a->dimensions) == 0);
}

/* Whether an item of a tuple is the number; 0 also for another type. */
static inline int is_number(PyObject *tuple, Py_ssize_t i, Py_ssize_t number) {
    PyObject *item = tuple && PyTuple_Check(tuple) && i < PyTuple_Size(tuple) ? PyTuple_GetItem(tuple, i)
                                                                              : NULL;
    return item && PyLong_Check(item) && PyLong_AsSsize_t(item) == number;
}

/* An attribute of an object's type; -1 with an exception set. */
static inline Py_ssize_t number_of_type(PyObject *object, const char *attribute) {
    PyObject *number = PyObject_GetAttrString((PyObject *)Py_TYPE(object), attribute);
    Py_ssize_t size = number ? PyLong_AsSsize_t(number) : -1;
    Py_XDECREF(number);
    return size;
}

/* Whether arrays are laid out as above, by an example: a view with other strides and three dimensions,
   whose attributes are compared. -1 with an exception set. */
static inline int reads_arrays(PyObject *example) {
    Py_ssize_t bytes = number_of_type(example, "__basicsize__");
    Py_ssize_t weak = number_of_type(example, "__weakrefoffset__");
    if (bytes < 0 || weak < 0) return -1;
    if (bytes < (Py_ssize_t)sizeof(Array) || weak != offsetof(Array, weak_references)) return 0;
    PyObject *shape = PyObject_GetAttrString(example, "shape");
    PyObject *strides = shape ? PyObject_GetAttrString(example, "strides") : NULL;
    PyObject *base = strides ? PyObject_GetAttrString(example, "base") : NULL;
    PyObject *dtype = base ? PyObject_GetAttrString(example, "dtype") : NULL;
    Array *array = ARRAY_OF(example);
    int same = dtype ? array->dimensions == 3 && array->base == base && array->dtype == dtype : -1;
    for (int i = 0; same == 1 && i < 3; i++) /* the pointers are followed only after these checks */
        same = is_number(shape, i, array->shape[i]) && is_number(strides, i, array->strides[i]);
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    Py_XDECREF(base);
    Py_XDECREF(dtype);
    return same;
}

#endif
