/* Places the elements of noted outputs one after the other, equal ones once, and gathers them there. */
#ifndef NODESCOPE_ELEMENTS_H
#define NODESCOPE_ELEMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#include "memory.h"

/* Place the elements of outputs as `place_elements` does; needs no lock. `rows` and `shapes` are the columns of
   `summarise_noted`. Returns the number of bytes; -1 without memory. */
int64_t place_outputs(const Block *blocks, const int64_t *rows, const int64_t *shapes, Py_ssize_t many,
                      int64_t *starts);

/* Adds the functions `place_elements` and `gather_elements`; -1 with an exception set. */
int add_elements(PyObject *module);

#endif
