/* Columns of integers, as the tables of packed rows hold them. */
#ifndef NODESCOPE_COLUMNS_H
#define NODESCOPE_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the functions to a module; -1 with an exception set. */
int add_columns(PyObject *module);

#endif
