#include "times.h"

#include <stdint.h>
#include <structmember.h>

#include "pauses.h"

typedef struct {
    PyObject_HEAD
    long long *numbers;
    Py_ssize_t count, room;  /* in executions */
    Py_ssize_t most;
    PyObject *when_full, *wake;
    char asleep, several;    /* `several`: they ran on more than one thread */
} NotedTimes;

#define THREAD 2  /* position of the thread among the numbers of an execution */

static PyTypeObject *times_type;

int notes_times(PyObject *object) { return Py_TYPE(object) == times_type; }

int note_times(PyObject *object, const long long numbers[TIMED]) {
    NotedTimes *self = (NotedTimes *)object;
    PyObject *done;
    if (self->count == self->room) {
        Py_ssize_t room = self->room ? 2 * self->room : self->most;
        void *larger = PyMem_Realloc(self->numbers, (size_t)room * TIMED * sizeof(long long));
        if (!larger) {
            PyErr_NoMemory();
            return -1;
        }
        self->numbers = larger;
        self->room = room;
    }
    long long *place = self->numbers + self->count * TIMED;
    for (int i = 0; i < TIMED; i++) place[i] = numbers[i];
    self->several |= numbers[THREAD] != self->numbers[THREAD];
    self->count++;
    noted_until = numbers[TIMED - 1];
    if (self->count >= self->most) {
        done = PyObject_CallNoArgs(self->when_full);
    } else if (self->asleep) {
        self->asleep = 0;
        done = PyObject_CallNoArgs(self->wake);
    } else {
        return 0;
    }
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *times_call(PyObject *self, PyObject *arguments, PyObject *keywords) {
    long long numbers[TIMED];
    if (!PyArg_ParseTuple(arguments, "LLLLL", numbers, numbers + 1, numbers + 2, numbers + 3,
                          numbers + 4) ||
        note_times(self, numbers) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(take_doc,
"take()\n--\n\n"
"Take all executions: node, step, thread, start and end of each, as int64 in native byte order; and\n"
"the thread if all ran on the same one, else None.\n");

static PyObject *times_take(PyObject *object, PyObject *nothing) {
    NotedTimes *self = (NotedTimes *)object;
    PyObject *taken = PyBytes_FromStringAndSize(
        (const char *)self->numbers, self->count * TIMED * (Py_ssize_t)sizeof(long long));
    PyObject *thread = self->count && !self->several
        ? PyLong_FromLongLong(self->numbers[THREAD]) : Py_NewRef(Py_None);
    PyObject *both = taken && thread ? PyTuple_Pack(2, taken, thread) : NULL;
    Py_XDECREF(taken);
    Py_XDECREF(thread);
    if (both) self->count = self->several = 0;
    return both;
}

PyDoc_STRVAR(up_to_doc,
"up_to(thread)\n--\n\n"
"The number of noted executions, if the last one ran on this thread; else 0.\n");

static PyObject *times_up_to(PyObject *object, PyObject *thread) {
    NotedTimes *self = (NotedTimes *)object;
    long long wanted = PyLong_AsLongLong(thread);
    if (wanted == -1 && PyErr_Occurred()) return NULL;
    int same = self->count && self->numbers[(self->count - 1) * TIMED + THREAD] == wanted;
    return PyLong_FromSsize_t(same ? self->count : 0);
}

static Py_ssize_t times_length(PyObject *self) { return ((NotedTimes *)self)->count; }

static PyObject *times_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    Py_ssize_t most;
    PyObject *when_full, *wake;
    if (!PyArg_ParseTuple(arguments, "nOO", &most, &when_full, &wake)) return NULL;
    if (most < 1) {
        PyErr_SetString(PyExc_ValueError, "at least one execution is noted at a time");
        return NULL;
    }
    NotedTimes *self = (NotedTimes *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    self->most = most;
    self->when_full = Py_NewRef(when_full);
    self->wake = Py_NewRef(wake);
    self->asleep = 1;
    return (PyObject *)self;
}

static int times_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((NotedTimes *)object)->when_full);
    Py_VISIT(((NotedTimes *)object)->wake);
    return 0;
}

static int times_clear(PyObject *object) {
    Py_CLEAR(((NotedTimes *)object)->when_full);
    Py_CLEAR(((NotedTimes *)object)->wake);
    return 0;
}

static void times_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    times_clear(object);
    PyMem_Free(((NotedTimes *)object)->numbers);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

static PyMethodDef times_methods[] = {
    {"take", times_take, METH_NOARGS, take_doc},
    {"up_to", times_up_to, METH_O, up_to_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef times_members[] = {
    {"asleep", T_BOOL, offsetof(NotedTimes, asleep), 0, "Whether the writer is to be woken."},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(times_doc,
"NotedTimes(most, when_full, wake)\n--\n\n"
"Executions of which only the times are noted. Call it with node, step, thread, start and end.\n\n"
"Args:\n"
"    most: The number of executions at which `when_full` is called, which takes them.\n"
"    when_full, wake: Functions without arguments; `wake` is called at the first execution after\n"
"        `asleep` was set.\n");

static PyType_Slot times_slots[] = {
    {Py_tp_new, times_new},
    {Py_tp_traverse, times_traverse},
    {Py_tp_clear, times_clear},
    {Py_tp_dealloc, times_dealloc},
    {Py_tp_call, times_call},
    {Py_sq_length, times_length},
    {Py_tp_methods, times_methods},
    {Py_tp_members, times_members},
    {Py_tp_doc, (void *)times_doc},
    {0, NULL},
};

static PyType_Spec times_spec = {
    "nodescope.native._core.NotedTimes", sizeof(NotedTimes), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, times_slots};

int add_times(PyObject *module) {
    if (!times_type) times_type = (PyTypeObject *)PyType_FromSpec(&times_spec);
    return times_type ? PyModule_AddObjectRef(module, "NotedTimes", (PyObject *)times_type) : -1;
}
