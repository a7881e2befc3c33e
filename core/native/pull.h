/* Carries cotangents back along a tape. */
#ifndef NODESCOPE_PULL_H
#define NODESCOPE_PULL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the type `Pull`; -1 with an exception set. */
int add_pull(PyObject *module);

#endif
