/* Memory for copies of arrays, in large pages where the system has them. */
#ifndef NODESCOPE_MEMORY_H
#define NODESCOPE_MEMORY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "held.h"

/* Noted executions: the bytes from `begin` to `end` of a piece of memory; and arrays that they refer to. */
typedef struct {
    const char *start;
    Py_ssize_t begin, end;
    const HeldMemory *held;
    Py_ssize_t many_held;
} Block;

/* Adds the type `Memory`; -1 with an exception set. */
int add_memory(PyObject *module);

/* A new `Memory` of at least this size, with arbitrary contents; `cut_memory` sets the size of its
   buffer. NULL with an exception set. */
PyObject *new_memory(Py_ssize_t bytes);

/* The address and the size of a bytes object or a `Memory`; NULL with an exception set. */
char *memory_of(PyObject *object, Py_ssize_t *size);

/* The blocks of a tuple of tuples (memory, begin, end), or with `HeldArrays` as well, to be freed by the caller;
   NULL with an exception set. */
Block *blocks_in(PyObject *pieces);

/* Set the size of a `Memory`'s buffer. */
void cut_memory(PyObject *object, Py_ssize_t size);

/* Free the pieces that are kept for reuse. */
void release_memory(void);

/* Give free memory of the process back to the system, which keeps it if what follows it is in use: held arrays leave
   gaps between those of the program. */
void give_back_memory(void);

#endif
