/* Gathers the elements of noted outputs into one piece of memory. */
#ifndef NODESCOPE_ELEMENTS_H
#define NODESCOPE_ELEMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the function `gather_elements`; -1 with an exception set. */
int add_elements(PyObject *module);

#endif
