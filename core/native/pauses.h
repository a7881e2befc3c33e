/* Pauses of the program: stretches of time in which no execution is noted. */
#ifndef NODESCOPE_PAUSES_H
#define NODESCOPE_PAUSES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* Executions that were noted so far, by all sinks. Written with the interpreter's lock, read without. */
extern volatile uint64_t noted_so_far;

/* Adds the type `Pauses`; -1 with an exception set. */
int add_pauses(PyObject *module);

#endif
