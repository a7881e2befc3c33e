/* The type `Pauses`: while a program runs nodes, a thread that waits for a pause looks from time to time
   when the last one ended. To take the interpreter's lock for that would interrupt the program. */
#include "pauses.h"

#include "clock.h"

volatile int64_t noted_until;

typedef struct {
    PyObject_HEAD
    PyThread_type_lock going_on; /* held until `end`, so that a wait for it takes a slice, or less */
    volatile char ended;
} Pauses;

static PyObject *pauses_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    Pauses *self = (Pauses *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    if (!(self->going_on = PyThread_allocate_lock())) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    PyThread_acquire_lock(self->going_on, WAIT_LOCK);
    noted_until = 0; /* a new run has a clock of its own */
    return (PyObject *)self;
}

/* Nanoseconds of some slices of time, at most a hundred years. */
static long long spanned(long slice_us, int slices) {
    const long long most_us = 3000000000000000;
    if (slices < 1) return 0;
    return 1000 * (slice_us > most_us / slices ? most_us : (long long)slice_us * slices);
}

PyDoc_STRVAR(wait_doc,
"wait(now, slice_us, least, most)\n--\n\n"
"Wait for some slices of time, and on until no execution has been noted for as many, for most slices at\n"
"most. Executions that are emitted as events do not count.\n\n"
"Args:\n"
"    now: The time in nanoseconds, on the clock of the executions.\n\n"
"Returns the nanoseconds since the execution noted last; 0 if that was less than `least` slices ago, or\n"
"after `end`.\n\n"
"Raises:\n"
"    ValueError: A slice takes no time.\n");

static PyObject *pauses_wait(PyObject *object, PyObject *arguments) {
    Pauses *self = (Pauses *)object;
    long slice_us;
    int least, most;
    long long now;
    if (!PyArg_ParseTuple(arguments, "Llii", &now, &slice_us, &least, &most)) return NULL;
    if (slice_us < 1) {
        PyErr_SetString(PyExc_ValueError, "a slice takes a microsecond or more");
        return NULL;
    }
    const long long began = now_ns(), origin = began - now, over = began + spanned(slice_us, most);
    const long long wanted = spanned(slice_us, least);
    long long next = spanned(slice_us, least > 1 ? least : 1);
    Py_BEGIN_ALLOW_THREADS
    for (long long at = began; at < over && !self->ended;) {
        long long rest = over - at;
        if (PyThread_acquire_lock_timed(self->going_on, (next < rest ? next : rest) / 1000 + 1, 0) ==
            PY_LOCK_ACQUIRED)
            PyThread_release_lock(self->going_on); /* `end` has released it */
        at = now_ns();
        next = wanted - (at - origin - noted_until);
        if (next <= 0) break;
    }
    Py_END_ALLOW_THREADS
    /* Nodes may have run while this thread waited for the interpreter's lock. */
    long long paused = now_ns() - origin - noted_until;
    return PyLong_FromLongLong(paused >= wanted && !self->ended ? paused : 0);
}

static PyObject *pauses_end(PyObject *object, PyObject *nothing) {
    Pauses *self = (Pauses *)object;
    if (!self->ended) {
        self->ended = 1;
        PyThread_release_lock(self->going_on);
    }
    Py_RETURN_NONE;
}

static void pauses_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (((Pauses *)object)->going_on) PyThread_free_lock(((Pauses *)object)->going_on);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMethodDef pauses_methods[] = {
    {"wait", pauses_wait, METH_VARARGS, wait_doc},
    {"end", pauses_end, METH_NOARGS, "end()\n--\n\nWait no longer, and never again."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot pauses_slots[] = {
    {Py_tp_new, pauses_new},
    {Py_tp_dealloc, pauses_dealloc},
    {Py_tp_methods, pauses_methods},
    {Py_tp_doc, "Waits for pauses of a program that runs nodes."},
    {0, NULL},
};

static PyType_Spec pauses_spec = {"nodescope.native._core.Pauses", sizeof(Pauses), 0, Py_TPFLAGS_DEFAULT,
                                  pauses_slots};

int add_pauses(PyObject *module) {
    PyObject *type = PyType_FromSpec(&pauses_spec);
    if (!type) return -1;
    int added = PyModule_AddObjectRef(module, "Pauses", type);
    Py_DECREF(type);
    return added;
}
