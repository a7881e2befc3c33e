/* The type `Pauses`: while a program runs nodes, a thread that waits for a pause looks at one number from
   time to time. To take the interpreter's lock for that would interrupt the program. */
#include "pauses.h"

#include "clock.h"

volatile uint64_t noted_so_far;

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
    return (PyObject *)self;
}

PyDoc_STRVAR(wait_doc,
"wait(slice_us, least, most)\n--\n\n"
"Wait until no execution was noted for a slice of time, for some slices at least and at most.\n\n"
"Returns for how many nanoseconds none has been noted; 0 without such a slice, or after `end`.\n\n"
"Raises:\n"
"    ValueError: A slice takes no time.\n");

static PyObject *pauses_wait(PyObject *object, PyObject *arguments) {
    Pauses *self = (Pauses *)object;
    long slice_us;
    int least, most;
    uint64_t before = noted_so_far - 1;
    long long began = 0;
    if (!PyArg_ParseTuple(arguments, "lii", &slice_us, &least, &most)) return NULL;
    if (slice_us < 1) {
        PyErr_SetString(PyExc_ValueError, "a slice takes a microsecond or more");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    for (int slices = 0; slices < most && !self->ended; slices++) {
        if (noted_so_far != before) {
            before = noted_so_far;
            began = now_ns();
        } else if (slices >= least) break;
        if (PyThread_acquire_lock_timed(self->going_on, slice_us, 0) == PY_LOCK_ACQUIRED)
            PyThread_release_lock(self->going_on); /* `end` has released it */
    }
    Py_END_ALLOW_THREADS
    /* Nodes may have run while this thread waited for the interpreter's lock. */
    return PyLong_FromLongLong(noted_so_far == before && !self->ended ? now_ns() - began : 0);
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
