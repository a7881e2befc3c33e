/* Unobserved calls of an engine's operations. */
#ifndef NODESCOPE_PLAIN_H
#define NODESCOPE_PLAIN_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the type `Plain`; -1 with an exception set. */
int add_plain(PyObject *module);

/* What a `Plain` knows of an op, as a new reference; NULL with an exception set. */
PyObject *operation_in(PyObject *plain, PyObject *op);

/* The result of an op, given as `operation_in` returns it, on arrays and numbers; NULL with an exception
   set. */
PyObject *compute_in(PyObject *plain, PyObject *operation, PyObject *const *inputs, Py_ssize_t count,
                     PyObject *attrs);

#endif
