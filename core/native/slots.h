/* Attributes of classes with `__slots__`, read at their offsets. */
#ifndef NODESCOPE_SLOTS_H
#define NODESCOPE_SLOTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

static void keep(PyObject **place, PyObject *object) {
    PyObject *before = *place;
    Py_XINCREF(object);
    *place = object;
    Py_XDECREF(before);
}

/* Whether the elements of an array have gradients; -1 with an exception set. `known` and `smooth`
   cache the last dtype and its answer; `name` is "dtype". */
static int is_smooth(PyObject **known, int *smooth, PyObject *array, PyObject *name) {
    PyObject *dtype = PyObject_GetAttr(array, name);
    if (!dtype) return -1;
    if (dtype != *known) {
        PyObject *kind = PyObject_GetAttrString(dtype, "kind");
        Py_UCS4 letter = kind && PyUnicode_Check(kind) ? PyUnicode_ReadChar(kind, 0) : 0;
        Py_XDECREF(kind);
        if (PyErr_Occurred()) {
            Py_DECREF(dtype);
            return -1;
        }
        *smooth = letter == 'f' || letter == 'c' || letter == 'V';
        keep(known, dtype);
    }
    Py_DECREF(dtype);
    return *smooth;
}

/* The offset of a slot in instances of a class; -1 with an exception set. `instance` is an instance
   of the class in which no slot is set. */
static Py_ssize_t offset_of(PyObject *instance, const char *name) {
    Py_ssize_t offset = -1;
    PyObject *size_of = PyObject_GetAttrString((PyObject *)Py_TYPE(instance), "__basicsize__");
    PyObject *mark = PyUnicode_FromString("nodescope.native: a slot");
    if (size_of && mark && PyObject_SetAttrString(instance, name, mark) == 0) {
        Py_ssize_t size = PyLong_AsSsize_t(size_of), places = 0;
        for (Py_ssize_t at = sizeof(PyObject); at + (Py_ssize_t)sizeof(void *) <= size;
             at += sizeof(void *)) {
            if (SLOT(instance, at) == mark) {
                offset = at;
                places++;
            }
        }
        if (places != 1) offset = -1;
        if (PyObject_SetAttrString(instance, name, Py_None) < 0) offset = -1;
        if (offset >= 0 && SLOT(instance, offset) != Py_None) offset = -1;
    }
    Py_XDECREF(size_of);
    Py_XDECREF(mark);
    if (offset < 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s is not a slot of this class", name);
    return offset;
}

#endif
