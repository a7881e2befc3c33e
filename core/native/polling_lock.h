/* Polling locks: see nodescope/polling_lock.py. */
#ifndef NODESCOPE_POLLING_LOCK_H
#define NODESCOPE_POLLING_LOCK_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the type `PollingLock`; -1 with an exception set. */
int add_polling_lock(PyObject *module);

#endif
