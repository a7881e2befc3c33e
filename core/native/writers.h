/* Finds the execution that wrote each operand that an execution read. */
#ifndef NODESCOPE_WRITERS_H
#define NODESCOPE_WRITERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the type `Writers`; -1 with an exception set. */
int add_writers(PyObject *module);

#endif
