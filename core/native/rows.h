/* Rows of statistics, with the layout of `nodescope.record.blocks.STATISTICS`. */
#ifndef NODESCOPE_ROWS_H
#define NODESCOPE_ROWS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the function `fill_row` to a module; -1 with an exception set. */
int add_rows(PyObject *module);

#endif
