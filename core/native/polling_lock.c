/* The type `PollingLock`. Its fields are guarded by the interpreter's lock.

   It is in C so that no exception of a signal handler can come between taking the lock and the body of
   the `with` statement: the interpreter runs handlers between instructions of Python code. */
#include "polling_lock.h"

#include <time.h>

#define PAUSE_NS 50000
/* The owner lets waiting threads run after so many releases. */
#define GIVES_WAY 64

typedef struct {
    PyObject_HEAD
    unsigned long owner;
    Py_ssize_t depth;   /* how often the owner has taken it; 0: it is free */
    Py_ssize_t waiting; /* threads that wait for it */
    Py_ssize_t releases;
} PollingLock;

static void pause_without_lock(void) {
    struct timespec pause = {0, PAUSE_NS};
    Py_BEGIN_ALLOW_THREADS
    nanosleep(&pause, NULL);
    Py_END_ALLOW_THREADS
}

static int take(PollingLock *self) {
    unsigned long here = PyThread_get_thread_ident();
    if (self->depth && self->owner != here) return 0;
    self->owner = here;
    self->depth++;
    return 1;
}

static PyObject *lock_enter(PyObject *object, PyObject *nothing) {
    PollingLock *self = (PollingLock *)object;
    while (!take(self)) {
        self->waiting++;
        pause_without_lock();
        self->waiting--;
        if (PyErr_CheckSignals() < 0) return NULL;
    }
    Py_RETURN_TRUE;
}

static PyObject *lock_acquire(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
    int waits = count ? PyObject_IsTrue(arguments[0]) : 1;
    if (waits < 0) return NULL;
    return waits ? lock_enter(object, NULL) : PyBool_FromLong(take((PollingLock *)object));
}

static PyObject *lock_release(PyObject *object, PyObject *nothing) {
    PollingLock *self = (PollingLock *)object;
    if (!self->depth || self->owner != PyThread_get_thread_ident()) {
        PyErr_SetString(PyExc_RuntimeError, "cannot release un-acquired lock");
        return NULL;
    }
    if (--self->depth == 0 && self->waiting && ++self->releases % GIVES_WAY == 0) pause_without_lock();
    Py_RETURN_NONE;
}

static PyObject *lock_exit(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
    return lock_release(object, NULL);
}

static void lock_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMethodDef lock_methods[] = {
    {"__enter__", lock_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))lock_exit, METH_FASTCALL, NULL},
    {"acquire", (PyCFunction)(void (*)(void))lock_acquire, METH_FASTCALL,
     "acquire(blocking=True)\n--\n\nTake the lock; return whether it was taken."},
    {"release", lock_release, METH_NOARGS, "Give the lock up."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot lock_slots[] = {
    {Py_tp_dealloc, lock_dealloc},
    {Py_tp_methods, lock_methods},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_doc, "A reentrant lock that only a running thread gets."},
    {0, NULL},
};

static PyType_Spec lock_spec = {"nodescope.native._core.PollingLock", sizeof(PollingLock), 0,
                                Py_TPFLAGS_DEFAULT, lock_slots};

int add_polling_lock(PyObject *module) {
    PyObject *type = PyType_FromSpec(&lock_spec);
    if (!type) return -1;
    int added = PyModule_AddObjectRef(module, "PollingLock", type);
    Py_DECREF(type);
    return added;
}
