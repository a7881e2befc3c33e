/* The type `HeldArrays`. Freeing it runs no code of the program's: arrays with weak references, whose callbacks may
   do anything, are let go by a thread of their own. Every other thread may own a lock that a callback waits for, or
   have others wait for it. */
#include "held.h"

#include <stdint.h>
#include <stdlib.h>
#include <structmember.h>

#include "array_layout.h"

typedef struct {
    PyObject_HEAD
    HeldMemory *all;
    Py_ssize_t count, room, nbytes;
} HeldArrays;

static PyTypeObject *held_type;

/* How many references to each array are held, by open addressing: `most` is a power of two, and more than half of
   the places are empty. The interpreter's lock guards it, and the list of arrays to be let go later. */
typedef struct {
    const void *array;
    Py_ssize_t references;
} Counted;

static struct {
    Counted *places;
    size_t most, used;
} counts;

static struct {
    PyObject **arrays;
    Py_ssize_t count, room;
    int started; /* whether there is a thread that lets them go */
} later;

static size_t first_place(const void *array) {
    return (size_t)((uint64_t)(uintptr_t)array * 0x9e3779b97f4a7c15u >> 20) & (counts.most - 1);
}

/* The place of an array, or the empty one where it belongs. */
static Counted *place_of(const void *array) {
    size_t at = first_place(array);
    while (counts.places[at].array && counts.places[at].array != array) at = (at + 1) & (counts.most - 1);
    return counts.places + at;
}

/* Make room for more arrays; 0 without memory. */
static int reserve_counts(size_t more) {
    size_t most = counts.most ? counts.most : 256, before = counts.most;
    while (2 * (counts.used + more) > most) most *= 2;
    if (most == before) return 1;
    Counted *old = counts.places, *places = calloc(most, sizeof *places);
    if (!places) return 0;
    counts.places = places;
    counts.most = most;
    for (size_t i = 0; i < before; i++)
        if (old[i].array) *place_of(old[i].array) = old[i];
    free(old);
    return 1;
}

static void count_one(const void *array) {
    Counted *place = place_of(array);
    counts.used += !place->array;
    *place = (Counted){array, place->references + 1};
}

/* Count one reference less. The place of an array that is no longer held is filled with a later one that would not be
   found otherwise, and so on. */
static void count_off(const void *array) {
    Counted *place = place_of(array);
    if (!place->array || --place->references) return;
    size_t gap = (size_t)(place - counts.places), mask = counts.most - 1;
    for (size_t at = (gap + 1) & mask; counts.places[at].array; at = (at + 1) & mask) {
        size_t first = first_place(counts.places[at].array);
        if (((at - first) & mask) < ((at - gap) & mask)) continue;
        counts.places[gap] = counts.places[at];
        gap = at;
    }
    counts.places[gap] = (Counted){NULL, 0};
    counts.used--;
}

static void let_go(void *nothing) {
    if (!Py_IsInitialized()) return; /* the interpreter is about to end, and with it the arrays */
    PyGILState_STATE state = PyGILState_Ensure();
    while (later.count) Py_DECREF(later.arrays[--later.count]);
    later.started = 0;
    PyGILState_Release(state);
}

/* Let an array go, without running code of the program's. */
static void release(PyObject *array) {
    if (Py_REFCNT(array) > 1 || !ARRAY_OF(array)->weak_references) {
        Py_DECREF(array);
        return;
    }
    if (later.count == later.room) {
        PyObject **arrays = realloc(later.arrays, (size_t)(2 * later.room + 16) * sizeof *arrays);
        if (!arrays) return; /* rather lost than an error elsewhere */
        later.arrays = arrays;
        later.room = 2 * later.room + 16;
    }
    later.arrays[later.count++] = array;
    if (!later.started && Py_IsInitialized())
        later.started = PyThread_start_new_thread(let_go, NULL) != (unsigned long)-1;
}

/* The number of an array's elements. */
static Py_ssize_t size_of(PyObject *array) {
    Py_ssize_t size = 1;
    for (int axis = 0; axis < ARRAY_OF(array)->dimensions; axis++) size *= ARRAY_OF(array)->shape[axis];
    return size;
}

PyObject *new_held(void) { return PyType_GenericAlloc(held_type, 0); }

int reserve_held(PyObject *object, Py_ssize_t more) {
    HeldArrays *self = (HeldArrays *)object;
    if (!reserve_counts((size_t)more)) {
        PyErr_NoMemory();
        return -1;
    }
    if (self->count + more <= self->room) return 0;
    Py_ssize_t room = 2 * self->room + more + 16;
    HeldMemory *all = PyMem_Realloc(self->all, (size_t)room * sizeof *all);
    if (!all) {
        PyErr_NoMemory();
        return -1;
    }
    self->all = all;
    self->room = room;
    return 0;
}

Py_ssize_t hold(PyObject *object, PyObject *owner, const char *data, Py_ssize_t nbytes) {
    HeldArrays *self = (HeldArrays *)object;
    self->all[self->count] = (HeldMemory){Py_NewRef(owner), ARRAY_OF(owner)->data, size_of(owner), data, nbytes};
    self->nbytes += nbytes;
    count_one(owner);
    return self->count++;
}

const HeldMemory *held_in(PyObject *object, Py_ssize_t *count) {
    static const HeldMemory none;
    *count = 0;
    if (Py_TYPE(object) != held_type) return &none;
    HeldArrays *self = (HeldArrays *)object;
    for (HeldMemory *held = self->all; held < self->all + self->count; held++) {
        int same = held->whole == ARRAY_OF(held->owner)->data && held->size == size_of(held->owner);
        if (same || !held->whole) continue;
        char *zeros = calloc(1, (size_t)held->nbytes); /* the array was resized: other elements are found there */
        if (!zeros) return (HeldMemory *)PyErr_NoMemory();
        held->data = zeros;
        held->whole = NULL;
    }
    *count = self->count;
    return self->all ? self->all : &none;
}

static void held_dealloc(PyObject *object) {
    HeldArrays *self = (HeldArrays *)object;
    PyTypeObject *type = Py_TYPE(object);
    while (self->count) {
        const HeldMemory *held = self->all + --self->count;
        if (!held->whole) free((char *)held->data);
        count_off(held->owner);
        release(held->owner);
    }
    PyMem_Free(self->all);
    PyObject_Free(object);
    Py_DECREF(type);
}

static Py_ssize_t held_length(PyObject *object) { return ((HeldArrays *)object)->count; }

static PyMemberDef held_members[] = {
    {"nbytes", T_PYSSIZET, offsetof(HeldArrays, nbytes), READONLY, "Bytes of all memory that is held."},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(held_doc,
"Memory of arrays that is held until it is written.\n");

static PyType_Slot held_slots[] = {
    {Py_tp_dealloc, held_dealloc},
    {Py_sq_length, held_length},
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
    return PyLong_FromSsize_t(counts.most ? place_of(array)->references : 0);
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
