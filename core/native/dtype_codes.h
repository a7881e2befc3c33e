/* NumPy's type characters, which take four attributes to find out, by dtype. Included only by outputs.c. */
#ifndef NODESCOPE_DTYPE_CODES_H
#define NODESCOPE_DTYPE_CODES_H

#include "array_layout.h"
#include "objects.h"
#include "summary.h"

#define KINDS 8

/* The dtypes seen last. */
typedef struct {
    struct { PyObject *dtype; int code; Py_ssize_t itemsize; } all[KINDS];
    int next;
} DtypeCodes;

static struct { PyObject *dtype, *char_, *isnative, *itemsize; } dtype_names;

/* Needed once before `code_of`; -1 with an exception set. */
static int name_dtypes(void) {
    return name(&dtype_names.dtype, "dtype") | name(&dtype_names.char_, "char") |
           name(&dtype_names.isnative, "isnative") | name(&dtype_names.itemsize, "itemsize");
}

static void forget_dtypes(DtypeCodes *known) {
    for (int i = 0; i < KINDS; i++) Py_CLEAR(known->all[i].dtype);
}

/* NumPy's type character of an array's elements; 0 if elements of this type cannot be read. Also sets the size of
   an element. `class`: that of arrays whose layout is known, or NULL. */
static int code_of(DtypeCodes *known, PyObject *array, PyObject *class, Py_ssize_t *itemsize) {
    PyObject *dtype = (PyObject *)Py_TYPE(array) == class ? Py_NewRef(ARRAY_OF(array)->dtype)
                                                          : PyObject_GetAttr(array, dtype_names.dtype);
    if (!dtype) {
        PyErr_Clear();
        return 0;
    }
    for (int i = 0; i < KINDS; i++) {
        if (known->all[i].dtype == dtype) {
            Py_DECREF(dtype);
            *itemsize = known->all[i].itemsize;
            return known->all[i].code;
        }
    }
    PyObject *letter = PyObject_GetAttr(dtype, dtype_names.char_);
    PyObject *native = PyObject_GetAttr(dtype, dtype_names.isnative);
    PyObject *size = PyObject_GetAttr(dtype, dtype_names.itemsize);
    int code = -1;
    *itemsize = size ? PyLong_AsSsize_t(size) : -1;
    if (letter && native && *itemsize > 0 && PyUnicode_Check(letter)) {
        code = (int)PyUnicode_ReadChar(letter, 0);
        if (native != Py_True || code < 0 || code > 127 || code == 'E' || !summary_reads((char)code))
            code = 0;
        PyObject *before = known->all[known->next].dtype;
        known->all[known->next].dtype = Py_NewRef(dtype);
        known->all[known->next].code = code;
        known->all[known->next].itemsize = *itemsize;
        known->next = (known->next + 1) % KINDS;
        Py_XDECREF(before);
    }
    Py_XDECREF(letter);
    Py_XDECREF(native);
    Py_XDECREF(size);
    Py_DECREF(dtype);
    if (code < 0) PyErr_Clear(); /* a dtype of another library */
    return code < 0 ? 0 : code;
}

#endif
