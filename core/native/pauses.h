/* Pauses of the program: stretches of time in which no execution is noted. */
#ifndef NODESCOPE_PAUSES_H
#define NODESCOPE_PAUSES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* The end of the execution noted last, in nanoseconds on the clock of the executions. Written with the
   interpreter's lock, read without. */
extern volatile int64_t noted_until;

/* Adds the type `Pauses`; -1 with an exception set. */
int add_pauses(PyObject *module);

#endif
