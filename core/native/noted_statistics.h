/* Statistics of noted outputs, in columns. */
#ifndef NODESCOPE_NOTED_STATISTICS_H
#define NODESCOPE_NOTED_STATISTICS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the function `summarise_noted`; -1 with an exception set. */
int add_noted_statistics(PyObject *module);

#endif
