/* The type `HeldArrays`. */
#include "held.h"

#include <structmember.h>

typedef struct HeldArrays {
    PyObject_HEAD
    HeldArray *all;
    Py_ssize_t count, room, nbytes;
    struct HeldArrays *before, *after; /* in the list of all */
} HeldArrays;

static PyTypeObject *held_type;
static HeldArrays *newest; /* the list of all, which the interpreter's lock guards */

PyObject *new_held(void) {
    HeldArrays *self = (HeldArrays *)PyType_GenericAlloc(held_type, 0);
    if (!self) return NULL;
    self->before = newest;
    if (newest) newest->after = self;
    newest = self;
    return (PyObject *)self;
}

int reserve_held(PyObject *object, Py_ssize_t more) {
    HeldArrays *self = (HeldArrays *)object;
    if (self->count + more <= self->room) return 0;
    Py_ssize_t room = 2 * self->room + more + 16;
    HeldArray *all = PyMem_Realloc(self->all, (size_t)room * sizeof *all);
    if (!all) {
        PyErr_NoMemory();
        return -1;
    }
    self->all = all;
    self->room = room;
    return 0;
}

Py_ssize_t hold(PyObject *object, PyObject *array, const char *data, Py_ssize_t nbytes) {
    HeldArrays *self = (HeldArrays *)object;
    self->all[self->count] = (HeldArray){Py_NewRef(array), data, nbytes};
    self->nbytes += nbytes;
    return self->count++;
}

const HeldArray *held_in(PyObject *object, Py_ssize_t *count) {
    HeldArrays *self = Py_TYPE(object) == held_type ? (HeldArrays *)object : NULL;
    *count = self ? self->count : 0;
    return self ? self->all : NULL;
}

static void held_dealloc(PyObject *object) {
    HeldArrays *self = (HeldArrays *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->before) self->before->after = self->after;
    if (self->after) self->after->before = self->before;
    else newest = self->before;
    while (self->count) Py_DECREF(self->all[--self->count].array);
    PyMem_Free(self->all);
    PyObject_Free(object);
    Py_DECREF(type);
}

static Py_ssize_t held_length(PyObject *object) { return ((HeldArrays *)object)->count; }

PyDoc_STRVAR(content_doc,
"content(index)\n--\n\n"
"A copy of the elements of an array, as they lie in memory.\n");

static PyObject *held_content(PyObject *object, PyObject *number) {
    HeldArrays *self = (HeldArrays *)object;
    Py_ssize_t index = PyLong_AsSsize_t(number);
    if (index == -1 && PyErr_Occurred()) return NULL;
    if (index < 0 || index >= self->count) {
        PyErr_SetString(PyExc_IndexError, "there is no such array");
        return NULL;
    }
    return PyBytes_FromStringAndSize(self->all[index].data, self->all[index].nbytes);
}

static PyMethodDef held_methods[] = {
    {"content", held_content, METH_O, content_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef held_members[] = {
    {"nbytes", T_PYSSIZET, offsetof(HeldArrays, nbytes), READONLY, "Bytes of the elements of all arrays."},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(held_doc,
"Arrays that are held until their elements are written.\n");

static PyType_Slot held_slots[] = {
    {Py_tp_dealloc, held_dealloc},
    {Py_sq_length, held_length},
    {Py_tp_methods, held_methods},
    {Py_tp_members, held_members},
    {Py_tp_doc, (void *)held_doc},
    {0, NULL},
};

static PyType_Spec held_spec = {
    "nodescope.native._core.HeldArrays", sizeof(HeldArrays), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, held_slots};

PyDoc_STRVAR(holds_doc,
"holds(array)\n--\n\n"
"How many references to an array are held here.\n");

static PyObject *holds(PyObject *module, PyObject *array) {
    Py_ssize_t many = 0;
    for (HeldArrays *some = newest; some; some = some->before)
        for (HeldArray *held = some->all; held < some->all + some->count; held++) many += held->array == array;
    return PyLong_FromSsize_t(many);
}

static PyMethodDef functions[] = {
    {"holds", holds, METH_O, holds_doc},
    {NULL, NULL, 0, NULL},
};

int add_held(PyObject *module) {
    if (!held_type) held_type = (PyTypeObject *)PyType_FromSpec(&held_spec);
    if (!held_type || PyModule_AddObjectRef(module, "HeldArrays", (PyObject *)held_type) < 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
