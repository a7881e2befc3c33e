/* The type `NotedOutputs`; the records are described in noted_records.h. */
#include "outputs.h"

#include <structmember.h>

#include "dtype_codes.h"
#include "held_outputs.h"
#include "memory.h"
#include "memory_hash.h"
#include "noted_records.h"
#include "objects.h"
#include "pauses.h"
#include "strided_copy.h"

/* Outputs of so many bytes and more are emitted as events; of these only a copy is made on the program's
   thread, and no statistics. For smaller ones the event would take longer than the statistics. */
#define LARGE (1 << 20)
#define NONE (-1)

typedef struct {
    PyObject_HEAD
    PyObject *block;           /* the `Memory` that is being filled */
    PyObject **nodes;          /* the node of each execution, owned */
    Py_ssize_t nodes_room;
    PyObject *calls;           /* pairs: the place of an execution, and its attributes, if not the node's */
    int64_t *moves;            /* `MOVE` numbers each; see `note_move` */
    Py_ssize_t moved, moves_room;
    char *start;
    Py_ssize_t begin, used, room; /* records from `begin` up to `used` were not taken yet */
    Py_ssize_t count, outputs, most, most_bytes;
    PyObject *when_full, *wake;
    long long thread;
    char asleep, several;      /* `several`: the executions ran on more than one thread */
    char digests;              /* whether statistics are computed at once, where they take less room */
    char holds;                /* whether arrays are held instead of copied, where that is possible */
    PyObject *held;            /* the `HeldArrays` of the records that were not taken yet, or NULL */
    Py_ssize_t held_bytes;
    DtypeCodes dtypes;
    PyObject *array;           /* the class of arrays that are laid out as expected, or NULL */
    char *scratch;             /* `LARGE` bytes, or NULL */
    Recent recent[RECENT];     /* outputs among the records that were not taken yet */
} NotedOutputs;

static PyTypeObject *outputs_type;
static struct { PyObject *outputs, *dialect, *own; } names;

int notes_outputs(PyObject *object) { return Py_TYPE(object) == outputs_type; }

/* View an array's elements: where they lie, if that is known, which takes a tenth of the time. 0 if they
   cannot be viewed. The array must not be changed or freed before the view is released. */
static int viewed(NotedOutputs *self, PyObject *array, Py_ssize_t itemsize, Py_buffer *view) {
    if ((PyObject *)Py_TYPE(array) == self->array) {
        Array *known = ARRAY_OF(array);
        *view = (Py_buffer){.buf = known->data, .itemsize = itemsize, .len = itemsize,
                            .ndim = known->dimensions, .shape = known->shape,
                            .strides = known->strides};
        for (int axis = 0; axis < view->ndim; axis++) view->len *= view->shape[axis];
        return 1;
    }
    if (PyObject_GetBuffer(array, view, PyBUF_STRIDED_RO) == 0) return 1;
    PyErr_Clear();
    return 0;
}

/* The statistics of an array; 0 if its elements are needed, or take less room. Scattered elements are copied
   first, as they are read twice. */
static int digested(NotedOutputs *self, const Py_buffer *view, int code, Digest *digest) {
    Axes axes;
    const char *data = view->buf;
    if (view->len <= (Py_ssize_t)sizeof *digest) return 0;
    view_axes(view, &axes);
    if (order_in(view) == SCATTERED) {
        if (!self->scratch && !(self->scratch = PyMem_Malloc(LARGE))) return 0;
        copy_in_order(self->scratch, view);
        data = self->scratch;
        put_in_order(&axes);
    }
    return digest_elements(data, code, &axes, view->len, digest);
}

/* Make room for a record, and for arrays of `holding` bytes that it holds, by having earlier records taken.
   Returns 1, or 2 if earlier records may have been taken or other code may have run; 0 if there is no room, or
   -1 with an exception set. */
static int make_room(NotedOutputs *self, Py_ssize_t bytes, Py_ssize_t holding) {
    if (bytes + holding > self->most_bytes) return 0;
    int tries = 0;
    for (; self->count; tries++) {
        if (self->used + bytes <= self->room &&
            self->used - self->begin + self->held_bytes + bytes + holding <= self->most_bytes)
            return tries ? 2 : 1;
        if (tries == 2) return 0;
        PyObject *done = PyObject_CallNoArgs(self->when_full);
        if (!done) return -1;
        Py_DECREF(done);
    }
    if (self->block && self->used + bytes <= self->room) return tries ? 2 : 1;
    PyObject *block = new_memory(self->most_bytes), *before = self->block;
    if (!block) return -1;
    self->block = block;
    self->start = memory_of(block, &self->room);
    self->begin = self->used = 0;
    Py_XDECREF(before);
    return 2;
}

/* Add the node of the next execution, and a pair for its attributes, or NULL; -1 with an exception set. No
   other code runs meanwhile: nothing is allocated that the garbage collector follows. */
static int add_node(NotedOutputs *self, PyObject *node, PyObject *call, PyObject *attrs) {
    if (self->count == self->nodes_room) {
        Py_ssize_t room = self->nodes_room ? 2 * self->nodes_room : 256;
        PyObject **nodes = PyMem_Realloc(self->nodes, (size_t)room * sizeof *nodes);
        if (!nodes) {
            PyErr_NoMemory();
            return -1;
        }
        self->nodes = nodes;
        self->nodes_room = room;
    }
    PyObject *index = call ? PyLong_FromSsize_t(self->count) : NULL;
    if (call && (!index || PyTuple_SetItem(call, 0, index) < 0 ||
                 PyTuple_SetItem(call, 1, Py_NewRef(attrs)) < 0 || PyList_Append(self->calls, call) < 0))
        return -1;
    self->nodes[self->count] = Py_NewRef(node); /* counted once the record is written */
    return 0;
}

/* An output to be noted. */
typedef struct {
    Py_buffer view;
    int code;
    int64_t value;
    Py_ssize_t stored;  /* bytes of its elements or of what takes their place */
    Py_ssize_t repeats; /* the number of the earlier output that it repeats, or NONE */
    PyObject *owner;    /* see `Recent` */
    uint64_t sample;
    PyObject *held;     /* the array that is held in place of a copy, borrowed; or NULL */
    uint64_t hash;      /* of the elements, if it is known */
    int hashed, digested; /* whether the hash is known, and the digest */
    int64_t index;      /* where it is held already, or NONE */
    Digest digest;
} Output;

/* The number of an earlier output that has a copy of the same elements in the same memory, such as that of a reshape
   or a transposition, or NONE. Comparing them takes no longer than copying them, and their statistics are computed
   once. */
static Py_ssize_t repeated(NotedOutputs *self, const Output *output) {
    const Recent *earlier = earlier_in(self->recent, &output->view, output->code & TYPES);
    if (!earlier || earlier->owner || earlier->held) return NONE;
    int same = !memcmp(self->start + earlier->place, output->view.buf, (size_t)output->view.len);
    return same ? earlier->nth : NONE;
}

/* Whether an output can be held, or is by an earlier one, whose index and statistics are taken then. */
static int can_hold(NotedOutputs *self, Output *output) {
    const Py_buffer *view = &output->view;
    const Recent *earlier = output->hashed ? earlier_in(self->recent, view, output->code & TYPES) : NULL;
    HeldOutput held;
    output->index = NONE;
    if (earlier && earlier->held) {
        memcpy(&held, self->start + earlier->place, sizeof held);
        if (held.hash == output->hash) {
            output->index = held.index;
            output->digest = held.digest;
            if (earlier->order != IN_ORDER || order_in(view) != IN_ORDER)
                preview_digest(view, output->code & TYPES, &output->digest);
            return 1;
        }
    }
    if (output->held && !output->digested)
        output->digested = digest_held(view, output->code & TYPES, &output->digest);
    return output->held && output->digested;
}

/* The bytes of a record, and of the arrays that it holds; decides what is stored of its outputs. */
static Py_ssize_t record_bytes(NotedOutputs *self, Output *outputs, Py_ssize_t reads, Py_ssize_t gives,
                               Py_ssize_t *holding) {
    Py_ssize_t bytes = 8 * (HEAD + reads + gives);
    *holding = 0;
    for (Output *output = outputs; output < outputs + gives; output++) {
        if (output->code & DIGESTED) output->stored = sizeof output->digest;
        else if (can_hold(self, output)) {
            output->code |= HELD;
            output->stored = sizeof(HeldOutput);
            *holding += output->index == NONE ? output->view.len : 0;
        } else {
            output->code &= TYPES;
            output->repeats = repeated(self, output);
            output->stored = output->repeats == NONE ? output->view.len : (Py_ssize_t)sizeof(int64_t);
        }
        bytes += 8 * (4 + 2 * output->view.ndim) + padded(output->stored);
    }
    return bytes;
}

/* Whether a node is of nodescope's engine, which never writes to arrays: its writes give other arrays to tensors.
   Other libraries also write through views of an array. */
static int is_own(PyObject *node) {
    PyObject *dialect = PyObject_GetAttr(node, names.dialect);
    int own = dialect && PyUnicode_Check(dialect) && PyUnicode_Compare(dialect, names.own) == 0;
    Py_XDECREF(dialect);
    if (PyErr_Occurred()) PyErr_Clear();
    return own;
}

/* Store only the statistics of an output, unless its elements are needed or take less room. Other code may run at
   the end, in a garbage collection. */
static void digest_output(NotedOutputs *self, Output *output, PyObject *array, PyObject *node, long long step,
                          PyObject *const *inputs, Py_ssize_t reads) {
    const Py_buffer *view = &output->view;
    const Recent *earlier = earlier_read(self->recent, array, self->array, view, output->code, step, inputs,
                                         reads);
    if (earlier && is_own(node))
        repeat_digest(self->start, earlier, view, output->code, &output->digest);
    else if (!digested(self, view, output->code, &output->digest)) return;
    output->code |= DIGESTED;
    PyObject *owner = order_in(view) == SCATTERED ? NULL : owner_of(array, self->array);
    if (!owner) return;
    output->sample = sample_of(view);
    if (!(output->owner = PyWeakref_NewRef(owner, NULL))) PyErr_Clear();
}

/* Prepare to hold an output instead of copying it, if that may be possible. */
static void hold_output(NotedOutputs *self, Output *output, PyObject *array, PyObject *node) {
    const Py_buffer *view = &output->view;
    if (view->len < LEAST_HELD || order_in(view) == SCATTERED || !is_own(node)) return;
    const Recent *earlier = earlier_in(self->recent, view, output->code);
    PyObject *owner = repeated(self, output) == NONE ? held_owner(array, self->array, view) : NULL;
    if (!owner && !(earlier && earlier->held)) return;
    output->held = owner;
    output->hash = hash_of(view->buf, view->len);
    output->hashed = 1;
}

/* View outputs again after other code ran, which may have changed an array. Returns whether they still
   have the same size. */
static int same_again(NotedOutputs *self, Output *outputs, PyObject *const *arrays, Py_ssize_t gives) {
    for (Py_ssize_t i = 0; i < gives; i++) {
        Py_buffer before = outputs[i].view;
        if (before.obj) continue;
        viewed(self, arrays[i], before.itemsize, &outputs[i].view);
        if (outputs[i].view.len != before.len || outputs[i].view.ndim != before.ndim) return 0;
    }
    return 1;
}

/* Write what is stored of the `nth` output; returns what follows it. */
static int64_t *write_output(NotedOutputs *self, int64_t *at, const Output *output, Py_ssize_t nth,
                             long long step) {
    const Py_buffer *view = &output->view;
    *at++ = output->value;
    *at++ = output->repeats == NONE ? output->code : output->code | REPEATED;
    *at++ = view->ndim;
    *at++ = output->stored;
    for (int axis = 0; axis < view->ndim; axis++) *at++ = view->shape[axis];
    strides_of(view, at);
    at += view->ndim;
    int order = order_in(view), digested = output->code & DIGESTED, held = output->code & HELD;
    if (output->repeats != NONE) *at = output->repeats;
    else if (held) {
        HeldOutput content = {output->index, output->hash, output->digest};
        if (content.index == NONE) {
            content.index = hold(self->held, output->held, view->buf, view->len);
            self->held_bytes += view->len;
        }
        memcpy(at, &content, sizeof content);
    } else if (digested) memcpy(at, &output->digest, sizeof output->digest);
    else if (order == SCATTERED) copy_in_order((char *)at, view);
    else memcpy(at, view->buf, (size_t)view->len);
    if (output->repeats == NONE && order != SCATTERED && (output->owner || !digested)) {
        Recent *place = place_of(self->recent, view);
        Py_XDECREF(place->owner);
        *place = (Recent){view->buf, view->len, (char *)at - self->start, nth, output->code & TYPES, order, held,
                          Py_XNewRef(output->owner), output->sample, step};
    }
    return at + padded(output->stored) / 8;
}

int note_outputs(PyObject *object, PyObject *node, PyObject *values, const long long numbers[TIMED],
                 PyObject *const *inputs, Py_ssize_t reads, PyObject *const *outputs, Py_ssize_t gives,
                 PyObject *attrs, int lasting) {
    NotedOutputs *self = (NotedOutputs *)object;
    if (gives < 1 || gives > MOST_OUTPUTS || !PyTuple_Check(values) || PyTuple_Size(values) != gives)
        return 0;
    Output all[MOST_OUTPUTS];
    PyObject *call = NULL; /* allocated first, as that can run other code, which may note executions */
    int status = 0;
    Py_ssize_t seen = 0, bytes, holding, itemsize;
    if (attrs && !(call = PyTuple_New(2))) return -1;
    for (; seen < gives; seen++) {
        Output *output = all + seen;
        if (!(output->code = code_of(&self->dtypes, outputs[seen], self->array, &itemsize)) ||
            !viewed(self, outputs[seen], itemsize, &output->view))
            goto done;
        output->value = PyLong_AsLongLong(PyTuple_GetItem(values, seen));
        output->repeats = NONE;
        output->owner = output->held = NULL;
        output->hashed = output->digested = 0;
        if (!output->view.len || output->view.ndim > MOST_AXES || output->view.len >= LARGE) {
            seen++;
            goto done;
        }
        if (self->digests) digest_output(self, output, outputs[seen], node, numbers[1], inputs, reads);
        else if (self->holds && lasting) hold_output(self, output, outputs[seen], node);
    }
    if (PyErr_Occurred()) {
        status = -1;
        goto done;
    }
    if (self->digests && !same_again(self, all, outputs, gives)) goto done;
    for (int tries = 0;; tries++) {
        bytes = record_bytes(self, all, reads, gives, &holding);
        if ((status = make_room(self, bytes, holding)) < 2) break;
        if (tries == 2 || !same_again(self, all, outputs, gives)) status = 0;
        if (!status) break;
    }
    if (status <= 0) goto done;
    if ((holding && !self->held && !(self->held = new_held())) || (holding && reserve_held(self->held, gives) < 0) ||
        add_node(self, node, call, attrs) < 0) {
        status = -1;
        goto done;
    }
    int64_t *at = (int64_t *)(self->start + self->used);
    *at++ = bytes;
    for (int i = 0; i < TIMED; i++) *at++ = numbers[i];
    *at++ = reads;
    *at++ = gives;
    for (Py_ssize_t i = 0; i < reads; i++) *at++ = (int64_t)(uintptr_t)inputs[i];
    for (Py_ssize_t i = 0; i < gives; i++) *at++ = (int64_t)(uintptr_t)outputs[i];
    for (Py_ssize_t i = 0; i < gives; i++) at = write_output(self, at, all + i, self->outputs + i, numbers[1]);
    self->used += bytes;
    self->outputs += gives;
    if (self->count && self->thread != numbers[2]) self->several = 1;
    self->thread = numbers[2];
    self->count++;
    noted_until = numbers[TIMED - 1];
    PyObject *told = NULL;
    if (self->count >= self->most) told = PyObject_CallNoArgs(self->when_full);
    else if (self->asleep) {
        self->asleep = 0;
        told = PyObject_CallNoArgs(self->wake);
    } else told = Py_NewRef(Py_None);
    if (!told) status = -1;
    Py_XDECREF(told);
done:
    Py_XDECREF(call);
    for (Py_ssize_t i = 0; i < seen; i++) {
        PyBuffer_Release(&all[i].view);
        Py_XDECREF(all[i].owner);
    }
    return status;
}

int note_move(PyObject *object, long long value, uint64_t before, uint64_t now) {
    NotedOutputs *self = (NotedOutputs *)object;
    if (!self->count) return 0;
    if (self->moved == self->moves_room) {
        Py_ssize_t room = self->moves_room ? 2 * self->moves_room : 64;
        int64_t *larger = PyMem_Realloc(self->moves, (size_t)room * MOVE * sizeof *larger);
        if (!larger) {
            PyErr_NoMemory();
            return -1;
        }
        self->moves = larger;
        self->moves_room = room;
    }
    const int64_t move[MOVE] = {self->count, value, (int64_t)before, (int64_t)now};
    memcpy(self->moves + MOVE * self->moved++, move, sizeof move);
    return 1;
}

/* `note_outputs` for tuples of arrays. */
static int note_tuples(PyObject *self, PyObject *node, PyObject *values, const long long numbers[TIMED],
                       PyObject *inputs, PyObject *outputs, PyObject *attrs, int lasting) {
    Py_ssize_t reads = PyTuple_Size(inputs), gives = PyTuple_Size(outputs);
    PyObject **arrays = PyMem_Calloc((size_t)(reads + gives + 1), sizeof *arrays);
    if (!arrays) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < reads; i++) arrays[i] = PyTuple_GetItem(inputs, i);
    for (Py_ssize_t i = 0; i < gives; i++) arrays[reads + i] = PyTuple_GetItem(outputs, i);
    int status = note_outputs(self, node, values, numbers, arrays, reads, arrays + reads, gives, attrs,
                              lasting);
    PyMem_Free(arrays);
    return status;
}

static PyObject *outputs_call(PyObject *self, PyObject *arguments, PyObject *keywords) {
    PyObject *node, *inputs, *outputs, *attrs = NULL;
    long long numbers[TIMED];
    int lasting = 0;
    if (!PyArg_ParseTuple(arguments, "OLLLLLOO|Op", &node, numbers, numbers + 1, numbers + 2,
                          numbers + 3, numbers + 4, &inputs, &outputs, &attrs, &lasting))
        return NULL;
    if (!PyTuple_Check(inputs) || !PyTuple_Check(outputs)) Py_RETURN_FALSE;
    PyObject *values = PyObject_GetAttr(node, names.outputs);
    if (attrs == Py_None) attrs = NULL;
    int status = values ? note_tuples(self, node, values, numbers, inputs, outputs, attrs, lasting) : -1;
    Py_XDECREF(values);
    return status < 0 ? NULL : PyBool_FromLong(status);
}

PyDoc_STRVAR(moved_doc,
"moved(value, before, now)\n--\n\n"
"Note that the elements of a value, unchanged, are in another array after the execution noted last;\n"
"arrays are given by `id`. Return whether that was noted: not if no execution has been noted since the\n"
"last ones were taken.\n");

static PyObject *outputs_moved(PyObject *self, PyObject *arguments) {
    long long value;
    unsigned long long before, now;
    if (!PyArg_ParseTuple(arguments, "LKK", &value, &before, &now)) return NULL;
    int status = note_move(self, value, before, now);
    return status < 0 ? NULL : PyBool_FromLong(status);
}

PyDoc_STRVAR(take_doc,
"take()\n--\n\n"
"Take all executions: a `Memory`, their begin and end in it, the number of their outputs, their\n"
"nodes, pairs of an execution's index and its attributes, moved arrays, `HeldArrays` or None, and the\n"
"thread if all ran on the same one, else None. A moved array is four int64: the number of executions\n"
"noted before, the value, and the identities of the array before and now. Later executions may follow in\n"
"the same memory.\n");

static PyObject *outputs_take(PyObject *object, PyObject *nothing) {
    enum { PARTS = 9 };
    NotedOutputs *self = (NotedOutputs *)object;
    PyObject *taken = PyTuple_New(PARTS), *no_calls = PyList_New(0), *nodes = NULL;
    Py_ssize_t many;
    do { /* another thread, or a finalizer, may note executions meanwhile */
        Py_XDECREF(nodes);
        nodes = PyList_New(many = self->count);
    } while (nodes && many != self->count);
    if (!taken || !no_calls || !nodes) {
        Py_XDECREF(taken);
        Py_XDECREF(no_calls);
        Py_XDECREF(nodes);
        return NULL;
    }
    /* From here on no other code runs: nothing is allocated that the garbage collector follows. */
    int any = many > 0;
    PyObject *part[PARTS] = {
        any ? Py_NewRef(self->block) : new_memory(0),
        PyLong_FromSsize_t(any ? self->begin : 0),
        PyLong_FromSsize_t(any ? self->used : 0),
        PyLong_FromSsize_t(self->outputs),
        nodes,
        self->calls,
        PyBytes_FromStringAndSize((const char *)self->moves,
                                  self->moved * MOVE * (Py_ssize_t)sizeof *self->moves),
        Py_NewRef(self->held ? self->held : Py_None),
        any && !self->several ? PyLong_FromLongLong(self->thread) : Py_NewRef(Py_None),
    };
    int made = 1;
    for (int i = 0; i < PARTS; i++) made &= part[i] != NULL;
    if (!made) Py_INCREF(self->calls); /* it is still needed */
    for (int i = 0; i < PARTS; i++) PyTuple_SetItem(taken, i, part[i]);
    if (!made) {
        Py_DECREF(taken);
        Py_DECREF(no_calls);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < many; i++) PyList_SetItem(nodes, i, self->nodes[i]); /* it owns them now */
    self->calls = no_calls;
    self->begin = self->used;
    self->count = self->outputs = self->moved = self->several = self->held_bytes = 0;
    Py_CLEAR(self->held); /* it is among what was taken */
    forget_recent(self->recent);
    return taken;
}

PyDoc_STRVAR(up_to_doc,
"up_to(thread)\n--\n\n"
"The number of noted executions, if the last one ran on this thread; else 0.\n");

static PyObject *outputs_up_to(PyObject *object, PyObject *thread) {
    NotedOutputs *self = (NotedOutputs *)object;
    long long wanted = PyLong_AsLongLong(thread);
    if (wanted == -1 && PyErr_Occurred()) return NULL;
    return PyLong_FromSsize_t(self->thread == wanted ? self->count : 0);
}

static Py_ssize_t outputs_length(PyObject *self) { return ((NotedOutputs *)self)->count; }

static PyObject *outputs_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    Py_ssize_t most, most_bytes;
    PyObject *when_full, *wake, *example = NULL;
    int digests, holds = 0;
    if (!PyArg_ParseTuple(arguments, "nnOOp|Op", &most, &most_bytes, &when_full, &wake, &digests,
                          &example, &holds))
        return NULL;
    int known = example ? reads_arrays(example) : 0;
    if (known < 0) return NULL;
    if (most < 1 || most_bytes < 8) {
        PyErr_SetString(PyExc_ValueError, "at least one execution is noted at a time");
        return NULL;
    }
    NotedOutputs *self = (NotedOutputs *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    self->most = most;
    self->most_bytes = most_bytes / 8 * 8;
    self->when_full = Py_NewRef(when_full);
    self->wake = Py_NewRef(wake);
    self->asleep = 1;
    self->digests = (char)digests;
    if (known) self->array = Py_NewRef((PyObject *)Py_TYPE(example));
    self->holds = known && holds;
    if (!(self->calls = PyList_New(0))) Py_CLEAR(self);
    return (PyObject *)self;
}

static int outputs_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    for (Py_ssize_t i = 0; i < ((NotedOutputs *)object)->count; i++)
        Py_VISIT(((NotedOutputs *)object)->nodes[i]);
    Py_VISIT(((NotedOutputs *)object)->calls);
    Py_VISIT(((NotedOutputs *)object)->when_full);
    Py_VISIT(((NotedOutputs *)object)->wake);
    return 0;
}

static int outputs_clear(PyObject *object) {
    NotedOutputs *self = (NotedOutputs *)object;
    while (self->count) Py_DECREF(self->nodes[--self->count]);
    Py_CLEAR(self->calls);
    Py_CLEAR(self->when_full);
    Py_CLEAR(self->wake);
    Py_CLEAR(self->array);
    Py_CLEAR(self->held);
    forget_dtypes(&self->dtypes);
    return 0;
}

static void outputs_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    outputs_clear(object);
    forget_recent(((NotedOutputs *)object)->recent);
    Py_CLEAR(((NotedOutputs *)object)->block);
    PyMem_Free(((NotedOutputs *)object)->scratch);
    PyMem_Free(((NotedOutputs *)object)->moves);
    PyMem_Free(((NotedOutputs *)object)->nodes);
    release_memory();
    if (((NotedOutputs *)object)->holds) give_back_memory();
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

static PyMethodDef outputs_methods[] = {
    {"moved", outputs_moved, METH_VARARGS, moved_doc},
    {"take", outputs_take, METH_NOARGS, take_doc},
    {"up_to", outputs_up_to, METH_O, up_to_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef outputs_members[] = {
    {"asleep", T_BOOL, offsetof(NotedOutputs, asleep), 0, "Whether the writer is to be woken."},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(outputs_doc,
"NotedOutputs(most, most_bytes, when_full, wake, digests, example=None, holds=False)\n--\n\n"
"Executions noted with copies of their outputs. Call it with the node, its id, step, thread, start,\n"
"end, tuples of the arrays that the execution read and returned, its attributes if they are not the\n"
"node's, and whether nobody writes to what it returned; it returns whether the execution was noted.\n\n"
"Args:\n"
"    most, most_bytes: Number of executions, and bytes, at which `when_full` is called, which takes\n"
"        them.\n"
"    when_full, wake: As in `NotedTimes`.\n"
"    digests: Whether only statistics are needed: they are computed at once where they take less room\n"
"        than the copy.\n"
"    example: An array of three dimensions, with a base: if it is laid out as expected, arrays of its\n"
"        class are read where they lie, and else as buffers.\n"
"    holds: Whether large outputs to which nobody writes are held instead of copied, if there is an example\n"
"        and they are those of nodescope's engine.\n");

static PyType_Slot outputs_slots[] = {
    {Py_tp_new, outputs_new},
    {Py_tp_traverse, outputs_traverse},
    {Py_tp_clear, outputs_clear},
    {Py_tp_dealloc, outputs_dealloc},
    {Py_tp_call, outputs_call},
    {Py_sq_length, outputs_length},
    {Py_tp_methods, outputs_methods},
    {Py_tp_members, outputs_members},
    {Py_tp_doc, (void *)outputs_doc},
    {0, NULL},
};

static PyType_Spec outputs_spec = {
    "nodescope.native._core.NotedOutputs", sizeof(NotedOutputs), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, outputs_slots};

int add_outputs(PyObject *module) {
    if (name_dtypes() < 0 || name(&names.outputs, "outputs") < 0 || name(&names.dialect, "dialect") < 0 ||
        name(&names.own, "nodescope") < 0)
        return -1;
    if (!outputs_type) outputs_type = (PyTypeObject *)PyType_FromSpec(&outputs_spec);
    if (!outputs_type) return -1;
    return PyModule_AddObjectRef(module, "NotedOutputs", (PyObject *)outputs_type);
}
