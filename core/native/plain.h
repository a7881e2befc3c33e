/* Unobserved calls of an engine's operations. */
#ifndef NODESCOPE_PLAIN_H
#define NODESCOPE_PLAIN_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the type `Plain`; -1 with an exception set. */
int add_plain(PyObject *module);

#endif
