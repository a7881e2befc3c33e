/* The type `Pauses`: while a program runs nodes, a thread that waits for a pause looks at one number from
   time to time. To take the interpreter's lock for that would interrupt the program. */
#include "pauses.h"

#include <time.h>

volatile uint64_t noted_so_far;

typedef struct {
    PyObject_HEAD
    volatile char ended;
} Pauses;

PyDoc_STRVAR(wait_doc,
"wait(slice_ns, least, most)\n--\n\n"
"Wait until no execution was noted for a slice of time, for some slices at least and at most; return how\n"
"many passed. `end` ends the wait with the present slice.\n\n"
"Raises:\n"
"    ValueError: A slice does not take from 0 to 999,999,999 ns.\n");

static PyObject *pauses_wait(PyObject *object, PyObject *arguments) {
    Pauses *self = (Pauses *)object;
    long slice_ns;
    int least, most, slices = 0;
    if (!PyArg_ParseTuple(arguments, "lii", &slice_ns, &least, &most)) return NULL;
    if (slice_ns < 0 || slice_ns > 999999999) {
        PyErr_SetString(PyExc_ValueError, "a slice takes less than a second");
        return NULL;
    }
    struct timespec slice = {0, slice_ns};
    Py_BEGIN_ALLOW_THREADS
    while (slices < most && !self->ended) {
        uint64_t before = noted_so_far;
        nanosleep(&slice, NULL);
        if (++slices >= least && noted_so_far == before) break;
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(slices);
}

static PyObject *pauses_end(PyObject *object, PyObject *nothing) {
    ((Pauses *)object)->ended = 1;
    Py_RETURN_NONE;
}

static void pauses_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMethodDef pauses_methods[] = {
    {"wait", pauses_wait, METH_VARARGS, wait_doc},
    {"end", pauses_end, METH_NOARGS, "end()\n--\n\nWait no longer, and never again."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot pauses_slots[] = {
    {Py_tp_dealloc, pauses_dealloc},
    {Py_tp_methods, pauses_methods},
    {Py_tp_new, PyType_GenericNew},
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
