/* Memory for copies of arrays, in large pages where the system has them. */
#ifndef NODESCOPE_MEMORY_H
#define NODESCOPE_MEMORY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Noted executions: the bytes from `begin` to `end` of a piece of memory. */
typedef struct {
    const char *start;
    Py_ssize_t begin, end;
} Block;

/* Adds the type `Memory`; -1 with an exception set. */
int add_memory(PyObject *module);

/* A new `Memory` of at least this size, with arbitrary contents; `cut_memory` sets the size of its
   buffer. NULL with an exception set. */
PyObject *new_memory(Py_ssize_t bytes);

/* The address and the size of a bytes object or a `Memory`; NULL with an exception set. */
char *memory_of(PyObject *object, Py_ssize_t *size);

/* The blocks of a tuple of triples (memory, begin, end), to be freed by the caller; NULL with an
   exception set. */
Block *blocks_in(PyObject *triples);

/* Set the size of a `Memory`'s buffer. */
void cut_memory(PyObject *object, Py_ssize_t size);

/* Free the pieces that are kept for reuse. */
void release_memory(void);

#endif
