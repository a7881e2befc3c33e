/* The object types of observed calls: `Calls`, one per tracer, and `Operation`, one per op. */
#ifndef NODESCOPE_CALL_TYPES_H
#define NODESCOPE_CALL_TYPES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#include "clock.h"
#include "noted_records.h"
#include "objects.h"
#include "plain.h"
#include "slots.h"

#define MOST_INPUTS 8

/* The slots that are read; `Calls.offset` has the same order. */
enum {
    TENSOR_VID, TENSOR_DATA, TENSOR_EDGE, TENSOR_NAME, TENSOR_KIND, TENSOR_GRAD, TENSOR_HISTORY,
    STATE_BUILDER, STATE_CURSOR, STATE_RECORDING, STATE_THREAD, STATE_RAN, STATE_CURSORS,
    STATE_SCOPE, STATE_PHASE, STATE_FORWARD, STATE_NOTED,
    CURSOR_STEP, CURSOR_SLOTS, CURSOR_LOOP, CURSOR_LABEL, CURSOR_OWNER,
    ENTRY_INPUTS, ENTRY_OUTPUTS, ENTRY_NODE, ENTRY_LOOSE, ENTRY_GIVEN, ENTRY_VALUES,
    ENTRY_DERIVATIVES, ENTRY_ID, ENTRY_PLACE,
    BUS_DEMAND, BUS_ORIGIN, BUS_PROBES, BUS_EDITS, BUS_CATCH_UP,
    EMITTER_STEADY, EMITTER_EPOCH, EMITTER_STEP, EMITTER_MARKED, IDENTITY_CHANGED,
    SLOTS
};

static const char *const SLOT_NAMES[SLOTS] = {
    "_vid", "data", "edge", "_name", "_kind", "_grad", "_history",
    "builder", "cursor", "recording", "thread", "ran", "cursors",
    "scope", "phase", "forward", "noted",
    "step", "slots", "loop", "label", "owner",
    "inputs", "outputs", "node", "loose", "given", "values",
    "derivatives", "id", "place",
    "demand", "origin_ns", "probes", "edits", "catch_up",
    "steady", "epoch", "step", "marked", "changed",
};

/* For each slot, which of the `instances` passed to `Calls` has it. */
static const int SLOT_OWNERS[SLOTS] = {
    0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4,
    4, 4, 4, 4, 5, 5, 5, 5, 6};

/* The objects that are used at every call: those passed to `Calls`, and those cached later. */
enum {
    TENSOR, WRITTEN, ARRAY, LOCAL, TRACER, EMITTER, BUS, SEQUENCE, NO_ATTRS, AS_ARRAY,
    FINISHED, READS, USED, IDENTITY, BY_VALUE, PAIRS, BACKWARD_SCOPE, WRITTEN_AT, PLAIN,
    /* given */
    OPERATIONS, STATE_TYPE, CURSOR_TYPE, ENTRY_TYPE, DEMAND, IN_STEP, TIMES, STATE, DTYPE,
    SPELLED, SPELLING, WORKING, CHANGED, /* kept */
    OBJECTS
};

/* Numbers that are the same objects in call after call. */
enum { ORIGIN, STEP, THREAD, NUMBERS };

typedef struct {
    PyObject *object; /* owned */
    long long value;
} Number;

/* The values of an entry with one output, and what its arrays have: those that match need no look at the
   spec. */
#define MATCHES 256
#define FEW_AXES 4

typedef struct {
    PyObject *values, *dtype; /* owned */
    int dimensions;
    Py_ssize_t shape[FEW_AXES];
} Match;

#define FEW_INPUTS 4
#define FEW_ATTRS 3

/* The objects of a record: the thread's cursors, its scope and phase, the cursor there, the slot and the
   entry of the node, and the value id of its output: a tuple of ids if it has several. */
enum { OF_CURSORS, OF_SCOPE, OF_PHASE, OF_CURSOR, OF_SLOT, OF_ENTRY, OF_VALUE, OF };

/* A call that recurs; see call_sequence.h. All objects but the operation are owned. */
typedef struct {
    PyObject *object[OF];
    struct Operation *operation;
    PyObject *input[FEW_INPUTS]; /* value ids of tensors, and scalars */
    PyObject *name[FEW_ATTRS], *attr[FEW_ATTRS];
    long long id; /* that of the node */
    Py_ssize_t nth;
    unsigned revision;
    unsigned char count, tensors, attrs, loose; /* `tensors`: a bit for each input that is one */
} Record;

typedef struct {
    PyObject_HEAD
    Py_ssize_t offset[SLOTS];
    PyObject *object[OBJECTS];
    Number number[NUMBERS];
    long long base;      /* value ids up to this one belong to earlier runs */
    uint64_t thread;     /* the thread to which STATE belongs */
    int starts, gradients; /* whether DEMAND asks for starts, and for gradients */
    int smooth;          /* whether elements of DTYPE have gradients */
    PyObject *zero;
    Record *record;      /* of recurring calls, in order */
    Py_ssize_t records, room, next;
    unsigned revision;
    unsigned char *looped; /* by value id less the base: whether its node has run in rounds of a loop */
    long long looped_room;
    Match match[MATCHES]; /* by the address of the values */
} Calls;

typedef struct Operation {
    PyObject_HEAD
    Calls *calls;
    PyObject *op, *name, *impl;
    PyObject *ports;     /* the names of its inputs */
    PyObject *plain;     /* how PLAIN computes it; NULL without PLAIN */
    int outputs;         /* how many it has; 0 if they are too many for the core */
    int differentiable;
} Operation;

static PyTypeObject *calls_type, *operation_type;

static struct {
    PyObject *dtype, *impl, *name, *outputs, *starts, *state, *vjp, *times, *leaf,
        *cursor, *slot, *checked, *refused, *take_edits, *emit, *failed, *shape, *spec,
        *dtype_name, *reshape, *tensor, *unnamed, *gradients, *pair, *scope, *backward, *optimizer,
        *itemsize, *several, *moved, *own_attributes, *recent, *ports;
} names;

/* -------------------------------------------------------------------------- set-up */

static PyObject *calls_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    PyObject *objects, *instances;
    long long base;
    if (!PyArg_ParseTuple(arguments, "O!O!L", &PyTuple_Type, &objects, &PyTuple_Type, &instances,
                          &base))
        return NULL;
    if (PyTuple_Size(objects) != OPERATIONS || PyTuple_Size(instances) != 7) {
        PyErr_SetString(PyExc_TypeError, "Calls takes another number of objects");
        return NULL;
    }
    Calls *self = (Calls *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    for (int i = 0; i < OPERATIONS; i++) keep(&self->object[i], PyTuple_GetItem(objects, i));
    self->object[OPERATIONS] = PyDict_New();
    self->zero = PyLong_FromLong(0);
    self->base = base;
    self->revision = 1;
    for (int i = 1; i < 4; i++)
        keep(&self->object[STATE_TYPE + i - 1], (PyObject *)Py_TYPE(PyTuple_GetItem(instances, i)));
    for (int i = 0; i < SLOTS; i++) {
        PyObject *instance = PyTuple_GetItem(instances, SLOT_OWNERS[i]);
        self->offset[i] = instance ? offset_of(instance, SLOT_NAMES[i]) : -1;
        if (self->offset[i] < 0) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static int visit_record(const Record *record, visitproc visit, void *arg) {
    for (int i = 0; i < OF; i++) Py_VISIT(record->object[i]);
    for (int i = 0; i < FEW_INPUTS; i++) Py_VISIT(record->input[i]);
    for (int i = 0; i < FEW_ATTRS; i++) {
        Py_VISIT(record->name[i]);
        Py_VISIT(record->attr[i]);
    }
    return 0;
}

static void clear_record(Record *record) {
    record->revision = 0;
    for (int i = 0; i < OF; i++) Py_CLEAR(record->object[i]);
    for (int i = 0; i < FEW_INPUTS; i++) Py_CLEAR(record->input[i]);
    for (int i = 0; i < FEW_ATTRS; i++) {
        Py_CLEAR(record->name[i]);
        Py_CLEAR(record->attr[i]);
    }
}

static int calls_traverse(PyObject *object, visitproc visit, void *arg) {
    Calls *self = (Calls *)object;
    Py_VISIT(Py_TYPE(object));
    for (int i = 0; i < OBJECTS; i++) Py_VISIT(self->object[i]);
    for (int i = 0; i < MATCHES; i++) {
        Py_VISIT(self->match[i].values);
        Py_VISIT(self->match[i].dtype);
    }
    for (Py_ssize_t i = 0; i < self->records; i++) {
        int status = visit_record(&self->record[i], visit, arg);
        if (status) return status;
    }
    return 0;
}

static int calls_clear(PyObject *object) {
    Calls *self = (Calls *)object;
    for (int i = 0; i < OBJECTS; i++) Py_CLEAR(self->object[i]);
    for (int i = 0; i < MATCHES; i++) {
        Py_CLEAR(self->match[i].values);
        Py_CLEAR(self->match[i].dtype);
    }
    while (self->records) clear_record(&self->record[--self->records]);
    return 0;
}

static void calls_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    calls_clear(object);
    for (int i = 0; i < NUMBERS; i++) Py_CLEAR(((Calls *)object)->number[i].object);
    Py_CLEAR(((Calls *)object)->zero);
    PyMem_Free(((Calls *)object)->record);
    PyMem_Free(((Calls *)object)->looped);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

static int operation_traverse(PyObject *object, visitproc visit, void *arg) {
    Operation *self = (Operation *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->calls);
    Py_VISIT(self->op);
    Py_VISIT(self->impl);
    Py_VISIT(self->ports);
    Py_VISIT(self->plain);
    return 0;
}

static int operation_clear(PyObject *object) {
    Operation *self = (Operation *)object;
    Py_CLEAR(self->calls);
    Py_CLEAR(self->op);
    Py_CLEAR(self->name);
    Py_CLEAR(self->impl);
    Py_CLEAR(self->ports);
    Py_CLEAR(self->plain);
    return 0;
}

/* The `Operation` of an op, created if new; borrowed from the table. NULL with an exception set. */
static Operation *operation_of(Calls *calls, PyObject *op) {
    PyObject *known = PyDict_GetItemWithError(calls->object[OPERATIONS], op);
    if (known || PyErr_Occurred()) return (Operation *)known;
    Operation *operation = (Operation *)PyType_GenericAlloc(operation_type, 0);
    PyObject *outputs = PyObject_GetAttr(op, names.outputs), *vjp = PyObject_GetAttr(op, names.vjp);
    if (operation && outputs && vjp) {
        keep((PyObject **)&operation->calls, (PyObject *)calls);
        keep(&operation->op, op);
        operation->name = PyObject_GetAttr(op, names.name);
        operation->impl = PyObject_GetAttr(op, names.impl);
        operation->ports = PyObject_GetAttr(op, names.ports);
        long many = PyLong_AsLong(outputs);
        operation->outputs = many > 0 && many <= MOST_OUTPUTS ? (int)many : 0;
        operation->differentiable = vjp != Py_None;
        if (calls->object[PLAIN] != Py_None) operation->plain = operation_in(calls->object[PLAIN], op);
        if (operation->name && operation->impl && operation->ports && !PyErr_Occurred() &&
            PyDict_SetItem(calls->object[OPERATIONS], op, (PyObject *)operation) == 0)
            known = (PyObject *)operation; /* the table owns it */
    }
    Py_XDECREF((PyObject *)operation);
    Py_XDECREF(outputs);
    Py_XDECREF(vjp);
    return (Operation *)known;
}

/* A tuple of objects; NULL with an exception set. */
static PyObject *tuple_of(PyObject *const *objects, Py_ssize_t count) {
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple && i < count; i++)
        PyTuple_SetItem(tuple, i, Py_NewRef(objects[i]));
    return tuple;
}

/* The result of an operation on arrays and numbers; NULL with an exception set. */
static PyObject *compute(Calls *calls, Operation *operation, PyObject *const *values, Py_ssize_t count,
                         PyObject *attrs) {
    if (operation->plain)
        return compute_in(calls->object[PLAIN], operation->plain, values, count, attrs);
    PyObject *arguments = tuple_of(values, count), *result = NULL;
    if (!arguments) return NULL;
    result = PyObject_Call(operation->impl, arguments, PyDict_Size(attrs) ? attrs : NULL);
    Py_DECREF(arguments);
    return result;
}

#endif
