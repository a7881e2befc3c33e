/* The block of memory holds one record per execution, which consists of int64 and of elements:

   size of the record in bytes; node, step, thread, start, end; number of inputs and of outputs; the
   identities of both; then for each output: value, type, number of dimensions, bytes of its elements,
   shape, strides, and the elements in C order, padded to a multiple of eight bytes. */
#include "outputs.h"

#include <stdint.h>
#include <string.h>
#include <structmember.h>

#include "memory.h"
#include "objects.h"
#include "summary.h"

#define MOST_OUTPUTS 4
#define MOST_AXES 8
#define LARGE (1 << 16)  /* bytes; larger outputs are emitted as events, whose copies reuse memory */
#define KINDS 8
#define HEAD 8  /* number of int64 in a record before the identities */
#define SPECS 256 /* most pairs of type and shape that are distinguished at a time */

typedef struct {
    PyObject_HEAD
    PyObject *block, *nodes;   /* the `Memory` that is being filled; the node of each execution */
    char *start;
    Py_ssize_t begin, used, room; /* records from `begin` up to `used` were not taken yet */
    Py_ssize_t count, outputs, most, most_bytes;
    PyObject *when_full, *wake;
    long long thread;
    char asleep, several;      /* `several`: the executions ran on more than one thread */
    struct { PyObject *dtype; int code; } kinds[KINDS];
    int kind;
} NotedOutputs;

static PyTypeObject *outputs_type;
static struct { PyObject *dtype, *char_, *isnative, *outputs; } names;

int notes_outputs(PyObject *object) { return Py_TYPE(object) == outputs_type; }

/* NumPy's type character of an array's elements; 0 if elements of this type cannot be read. */
static int code_of(NotedOutputs *self, PyObject *array) {
    PyObject *dtype = PyObject_GetAttr(array, names.dtype);
    if (!dtype) {
        PyErr_Clear();
        return 0;
    }
    for (int i = 0; i < KINDS; i++) {
        if (self->kinds[i].dtype == dtype) {
            Py_DECREF(dtype);
            return self->kinds[i].code;
        }
    }
    PyObject *letter = PyObject_GetAttr(dtype, names.char_);
    PyObject *native = PyObject_GetAttr(dtype, names.isnative);
    int code = -1;
    if (letter && native && PyUnicode_Check(letter)) {
        code = (int)PyUnicode_ReadChar(letter, 0);
        if (native != Py_True || code < 0 || code > 127 || code == 'E' || !summary_reads((char)code))
            code = 0;
        PyObject *before = self->kinds[self->kind].dtype;
        self->kinds[self->kind].dtype = Py_NewRef(dtype);
        self->kinds[self->kind].code = code;
        self->kind = (self->kind + 1) % KINDS;
        Py_XDECREF(before);
    }
    Py_XDECREF(letter);
    Py_XDECREF(native);
    Py_DECREF(dtype);
    if (code < 0) PyErr_Clear(); /* a dtype of another library */
    return code < 0 ? 0 : code;
}

static char *copied(char *to, const char *from, const Py_buffer *view, int axis) {
    if (axis == view->ndim) {
        memcpy(to, from, (size_t)view->itemsize);
        return to + view->itemsize;
    }
    for (Py_ssize_t i = 0; i < view->shape[axis]; i++)
        to = copied(to, from + i * view->strides[axis], view, axis + 1);
    return to;
}

static Py_ssize_t padded(Py_ssize_t bytes) { return (bytes + 7) / 8 * 8; }

/* Make room for a record, by having earlier records taken. Returns 1, 0 if there is no room, or -1
   with an exception set. */
static int make_room(NotedOutputs *self, Py_ssize_t bytes) {
    if (bytes > self->most_bytes) return 0;
    for (int tries = 0; self->count; tries++) {
        if (self->used + bytes <= self->room && self->used - self->begin + bytes <= self->most_bytes)
            return 1;
        if (tries == 2) return 0;
        PyObject *done = PyObject_CallNoArgs(self->when_full);
        if (!done) return -1;
        Py_DECREF(done);
    }
    if (self->block && self->used + bytes <= self->room) return 1;
    PyObject *block = new_memory(self->most_bytes), *before = self->block;
    if (!block) return -1;
    self->block = block;
    self->start = memory_of(block, &self->room);
    self->begin = self->used = 0;
    Py_XDECREF(before);
    return 1;
}

int note_outputs(PyObject *object, PyObject *node, const long long numbers[TIMED],
                 PyObject *inputs, PyObject *outputs) {
    NotedOutputs *self = (NotedOutputs *)object;
    if (!PyTuple_Check(inputs) || !PyTuple_Check(outputs)) return 0;
    Py_ssize_t reads = PyTuple_Size(inputs), gives = PyTuple_Size(outputs);
    if (gives < 1 || gives > MOST_OUTPUTS) return 0;
    PyObject *values = PyObject_GetAttr(node, names.outputs);
    if (!values) return -1;
    Py_buffer views[MOST_OUTPUTS];
    int codes[MOST_OUTPUTS], status = 0;
    int64_t ids[MOST_OUTPUTS];
    Py_ssize_t held = 0, bytes = 8 * (HEAD + reads + gives);
    if (!PyTuple_Check(values) || PyTuple_Size(values) != gives) goto done;
    for (; held < gives; held++) {
        PyObject *array = PyTuple_GetItem(outputs, held);
        if (!(codes[held] = code_of(self, array))) goto done;
        if (PyObject_GetBuffer(array, &views[held], PyBUF_STRIDED_RO) < 0) {
            PyErr_Clear();
            goto done;
        }
        ids[held] = PyLong_AsLongLong(PyTuple_GetItem(values, held));
        bytes += 8 * (4 + 2 * views[held].ndim) + padded(views[held].len);
        if (!views[held].len || views[held].ndim > MOST_AXES || views[held].len >= LARGE) {
            held++;
            goto done;
        }
    }
    if (PyErr_Occurred()) {
        status = -1;
        goto done;
    }
    if ((status = make_room(self, bytes)) <= 0) goto done;
    if (PyList_Append(self->nodes, node) < 0) {
        status = -1;
        goto done;
    }
    int64_t *at = (int64_t *)(self->start + self->used);
    *at++ = bytes;
    for (int i = 0; i < TIMED; i++) *at++ = numbers[i];
    *at++ = reads;
    *at++ = gives;
    for (Py_ssize_t i = 0; i < reads; i++) *at++ = (int64_t)(uintptr_t)PyTuple_GetItem(inputs, i);
    for (Py_ssize_t i = 0; i < gives; i++) *at++ = (int64_t)(uintptr_t)PyTuple_GetItem(outputs, i);
    for (Py_ssize_t i = 0; i < gives; i++) {
        const Py_buffer *view = &views[i];
        *at++ = ids[i];
        *at++ = codes[i];
        *at++ = view->ndim;
        *at++ = view->len;
        int64_t row = view->itemsize;
        int in_order = 1;
        for (int axis = view->ndim - 1; axis >= 0; axis--) {
            in_order &= view->shape[axis] == 1 || view->strides[axis] == row;
            row *= view->shape[axis];
        }
        for (int axis = 0; axis < view->ndim; axis++) *at++ = view->shape[axis];
        for (int axis = 0; axis < view->ndim; axis++) *at++ = view->strides[axis];
        if (in_order) memcpy(at, view->buf, (size_t)view->len);
        else copied((char *)at, view->buf, view, 0);
        at += padded(view->len) / 8;
    }
    self->used += bytes;
    self->outputs += gives;
    if (self->count && self->thread != numbers[2]) self->several = 1;
    self->thread = numbers[2];
    self->count++;
    PyObject *told = NULL;
    if (self->count >= self->most) told = PyObject_CallNoArgs(self->when_full);
    else if (self->asleep) {
        self->asleep = 0;
        told = PyObject_CallNoArgs(self->wake);
    } else told = Py_NewRef(Py_None);
    if (!told) status = -1;
    Py_XDECREF(told);
done:
    for (Py_ssize_t i = 0; i < held; i++) PyBuffer_Release(&views[i]);
    Py_DECREF(values);
    return status;
}

static PyObject *outputs_call(PyObject *self, PyObject *arguments, PyObject *keywords) {
    PyObject *node, *inputs, *outputs;
    long long numbers[TIMED];
    if (!PyArg_ParseTuple(arguments, "OLLLLLOO", &node, numbers, numbers + 1, numbers + 2,
                          numbers + 3, numbers + 4, &inputs, &outputs))
        return NULL;
    int status = note_outputs(self, node, numbers, inputs, outputs);
    return status < 0 ? NULL : PyBool_FromLong(status);
}

PyDoc_STRVAR(take_doc,
"take()\n--\n\n"
"Take all executions: a `Memory`, their begin and end in it, the number of their outputs, their\n"
"nodes, and the thread if all ran on the same one, else None. Later executions may follow in the\n"
"same memory.\n");

static PyObject *outputs_take(PyObject *object, PyObject *nothing) {
    NotedOutputs *self = (NotedOutputs *)object;
    PyObject *none = PyList_New(0);
    if (!none) return NULL;
    PyObject *block = self->count ? Py_NewRef(self->block) : new_memory(0);
    PyObject *thread = self->count && !self->several
        ? PyLong_FromLongLong(self->thread) : Py_NewRef(Py_None);
    Py_ssize_t begin = self->count ? self->begin : 0, end = self->count ? self->used : 0;
    PyObject *taken = block && thread
        ? Py_BuildValue("OnnnOO", block, begin, end, self->outputs, self->nodes, thread) : NULL;
    if (taken) {
        PyObject *before = self->nodes;
        self->nodes = none;
        none = before;
        self->begin = self->used;
        self->count = self->outputs = self->several = 0;
    }
    Py_XDECREF(none);
    Py_XDECREF(block);
    Py_XDECREF(thread);
    return taken;
}

static Py_ssize_t outputs_length(PyObject *self) { return ((NotedOutputs *)self)->count; }

static PyObject *outputs_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    Py_ssize_t most, most_bytes;
    PyObject *when_full, *wake;
    if (!PyArg_ParseTuple(arguments, "nnOO", &most, &most_bytes, &when_full, &wake)) return NULL;
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
    if (!(self->nodes = PyList_New(0))) Py_CLEAR(self);
    return (PyObject *)self;
}

static int outputs_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((NotedOutputs *)object)->nodes);
    Py_VISIT(((NotedOutputs *)object)->when_full);
    Py_VISIT(((NotedOutputs *)object)->wake);
    return 0;
}

static int outputs_clear(PyObject *object) {
    NotedOutputs *self = (NotedOutputs *)object;
    Py_CLEAR(self->nodes);
    Py_CLEAR(self->when_full);
    Py_CLEAR(self->wake);
    for (int i = 0; i < KINDS; i++) Py_CLEAR(self->kinds[i].dtype);
    return 0;
}

static void outputs_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    outputs_clear(object);
    Py_CLEAR(((NotedOutputs *)object)->block);
    release_memory();
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

/* ------------------------------------------------------------------ statistics */

#define EXECUTION 7  /* number of int64 per execution: see `summarise_noted` */
#define OUTPUT 14    /* and per output */
#define OTHERS 3     /* how many kinds of outputs are counted */

typedef struct {
    int64_t *executions, *outputs, *shapes, *specs;
    uint64_t *identities, *histograms;
    double *moments, *previews;
    int64_t counts[OTHERS]; /* without statistics, with NaN or Inf, and not in C order */
} Columns;

/* Add the numbers of executions, outputs, sizes and identities in a block; 0 if it is malformed. */
static int counted(const Block *block, Py_ssize_t many[4]) {
    for (Py_ssize_t place = block->begin; place < block->end;) {
        const int64_t *at = (const int64_t *)(block->start + place), *head = at;
        Py_ssize_t rest = block->end - place;
        if (rest < 8 * HEAD || at[0] < 8 * HEAD || at[0] > rest || at[0] % 8) return 0;
        int64_t left = at[0] / 8 - HEAD, reads = at[6], gives = at[7];
        if (reads < 0 || gives < 0 || reads > left || gives > MOST_OUTPUTS || reads + gives > left)
            return 0;
        many[0]++;
        many[1] += gives;
        many[3] += reads + gives;
        left -= reads + gives;
        at += HEAD + reads + gives;
        for (int64_t i = 0; i < gives; i++) {
            if (left < 4 || at[2] < 0 || at[2] > MOST_AXES || at[3] < 1 || at[3] > rest) return 0;
            int64_t words = 4 + 2 * at[2] + padded(at[3]) / 8;
            if (words > left) return 0;
            many[2] += 2 * at[2];
            left -= words;
            at += words;
        }
        if (left) return 0;
        place += (at - head) * 8;
    }
    return 1;
}

/* The distinct types and shapes, by hash; once there are SPECS of them, each output has its own. */
typedef struct {
    struct { const int64_t *output; int64_t kind; } places[2 * SPECS];
    int64_t count;
    int64_t *next; /* where the next spec is written: type, bytes, number of dimensions, shape */
} Kinds;

/* The index of an output's type and shape among the distinct ones. */
static int64_t kind_of(const int64_t *output, Kinds *kinds) {
    uint64_t mark = (uint64_t)output[1] ^ (uint64_t)output[2] << 8;
    for (int64_t axis = 0; axis < output[2]; axis++)
        mark = (mark ^ (uint64_t)output[4 + axis]) * 0x9e3779b97f4a7c15u;
    size_t at = (size_t)(mark >> 32) % (2 * SPECS);
    for (; kinds->places[at].output; at = (at + 1) % (2 * SPECS)) {
        const int64_t *other = kinds->places[at].output;
        if (other[1] == output[1] && other[2] == output[2] &&
            !memcmp(other + 4, output + 4, (size_t)(8 * output[2])))
            return kinds->places[at].kind;
    }
    if (kinds->count < SPECS) {
        kinds->places[at].output = output;
        kinds->places[at].kind = kinds->count;
    }
    *kinds->next++ = output[1];
    *kinds->next++ = output[3];
    *kinds->next++ = output[2];
    memcpy(kinds->next, output + 4, (size_t)(8 * output[2]));
    kinds->next += output[2];
    return kinds->count++;
}

/* Summarise an output and append it to the columns; returns what follows it in its block. */
static const int64_t *add_output(const int64_t *at, int64_t seq, int64_t step, int64_t nth_block,
                                 const char *block, int bins, Kinds *kinds, Columns *to) {
    int dimensions = (int)at[2];
    const int64_t *shape = at + 4;
    Source source; /* without initialiser: it has room for many dimensions */
    Summary summary;
    int64_t size = 1;
    source.data = (const char *)(shape + 2 * dimensions);
    source.code = (char)at[1];
    source.dimensions = dimensions;
    for (int axis = 0; axis < dimensions; axis++) size *= shape[axis];
    source.itemsize = (int)(at[3] / (size ? size : 1));
    int64_t stride = source.itemsize, in_order = 1;
    for (int axis = dimensions - 1; axis >= 0; axis--) {
        in_order &= shape[axis] == 1 || shape[dimensions + axis] == stride;
        source.shape[axis] = shape[axis];
        source.strides[axis] = stride;
        stride *= shape[axis];
    }
    int unsafe = summarise(&source, bins, &summary);
    if (unsafe) memset(&summary, 0, sizeof summary);
    int64_t row[OUTPUT] = {seq, at[0], step, kind_of(at, kinds), summary.nan, summary.inf,
                           summary.zero, unsafe ? -1 : summary.finite, at[1], at[3], nth_block,
                           source.data - block, in_order, dimensions};
    memcpy(to->outputs, row, sizeof row);
    to->outputs += OUTPUT;
    to->counts[0] += unsafe;
    to->counts[1] += summary.nan || summary.inf;
    to->counts[2] += !in_order;
    memcpy(to->shapes, shape, (size_t)(16 * dimensions));
    to->shapes += 2 * dimensions;
    double moments[5] = {summary.low, summary.high, summary.mean, summary.std, summary.norm};
    memcpy(to->moments, moments, sizeof moments);
    to->moments += 5;
    memset(to->previews, 0, PREVIEW * sizeof(double));
    memcpy(to->previews, summary.preview, (size_t)summary.previewed * sizeof(double));
    to->previews += PREVIEW;
    if (!unsafe && summary.finite)
        memcpy(to->histograms, summary.histogram, (size_t)bins * sizeof(uint64_t));
    else memset(to->histograms, 0, (size_t)bins * sizeof(uint64_t));
    to->histograms += bins;
    return (const int64_t *)(source.data + padded(at[3]));
}

static void fill(const Block *blocks, Py_ssize_t count, const int64_t *firsts, int bins, Columns *to) {
    Kinds kinds = {.next = to->specs};
    for (int64_t nth_block = 0; nth_block < count; nth_block++) {
        const Block *block = blocks + nth_block;
        int64_t seq = firsts[nth_block];
        for (Py_ssize_t place = block->begin; place < block->end; seq++) {
            const int64_t *at = (const int64_t *)(block->start + place);
            int64_t reads = at[6], gives = at[7], step = at[2];
            uint64_t took = (uint64_t)at[5] - (uint64_t)at[4];
            int64_t row[EXECUTION] = {seq, at[1], step, at[3], at[4], (int64_t)took, reads + gives};
            memcpy(to->executions, row, sizeof row);
            to->executions += EXECUTION;
            memcpy(to->identities, at + HEAD, (size_t)(8 * (reads + gives)));
            to->identities += reads + gives;
            place += at[0];
            at += HEAD + reads + gives;
            for (int64_t i = 0; i < gives; i++)
                at = add_output(at, seq, step, nth_block, block->start, bins, &kinds, to);
        }
    }
    to->specs = kinds.next;
}

PyDoc_STRVAR(summarise_noted_doc,
"summarise_noted(blocks, firsts, bins)\n--\n\n"
"Statistics of noted executions, in columns; releases the interpreter's lock.\n\n"
"Args:\n"
"    blocks: A tuple of triples: memory, and begin and end of the executions in it.\n"
"    firsts: The seq of the first execution in each block, int64.\n"
"    bins: The number of bins of the histograms.\n\n"
"Returns:\n"
"    Eight bytes objects, and a tuple. For each execution, int64: seq, node, step, thread, start,\n"
"    duration, and the number of arrays that it read and returned. The identities of these arrays,\n"
"    uint64. For each output, int64: seq, value, step, index of its type and shape, counts of NaN, Inf,\n"
"    zeros and finite elements (-1 if statistics could not be computed), type, bytes, index of its\n"
"    block, offset of its elements there, whether it was in C order, and number of dimensions. The\n"
"    shapes and strides of all outputs. Low, high, mean, std, norm, float64. The histograms, uint64.\n"
"    The first elements, float64. The types and shapes, int64: type, bytes, number of dimensions,\n"
"    shape. The tuple: how many outputs have no statistics, have NaN or Inf, and were not in C order.\n");

/* The blocks of a tuple of triples, to be freed by the caller, and their total counts, see `counted`;
   NULL with an exception set. */
static Block *blocks_of(PyObject *triples, Py_ssize_t many[4]) {
    Py_ssize_t count = PyTuple_Size(triples);
    Block *blocks = blocks_in(triples);
    if (!blocks) return NULL;
    memset(many, 0, 4 * sizeof(Py_ssize_t));
    for (Py_ssize_t i = 0; i < count; i++) {
        if (blocks[i].begin % 8 == 0 && counted(blocks + i, many)) continue;
        PyErr_SetString(PyExc_ValueError, "this is no block of noted executions");
        PyMem_Free(blocks);
        return NULL;
    }
    return blocks;
}

static PyObject *py_summarise_noted(PyObject *module, PyObject *arguments) {
    enum { PARTS = 8 };
    PyObject *triples, *firsts, *parts[PARTS] = {NULL}, *specs = NULL, *all = NULL;
    Py_ssize_t many[4];
    int bins;
    if (!PyArg_ParseTuple(arguments, "O!Si", &PyTuple_Type, &triples, &firsts, &bins)) return NULL;
    if (bins < 1 || bins > MOST_BINS) {
        PyErr_Format(PyExc_ValueError, "a histogram has 1 to %d bins", MOST_BINS);
        return NULL;
    }
    Py_ssize_t count = PyTuple_Size(triples);
    if (PyBytes_Size(firsts) != 8 * count) {
        PyErr_SetString(PyExc_ValueError, "each block has a first seq");
        return NULL;
    }
    Block *blocks = blocks_of(triples, many);
    if (!blocks) return NULL;
    Py_ssize_t words[PARTS] = {EXECUTION * many[0], many[3], OUTPUT * many[1], many[2], 5 * many[1],
                               bins * many[1], PREVIEW * many[1], 3 * many[1] + many[2] / 2};
    int made = 1;
    for (int i = 0; i < PARTS; i++)
        made &= !!(parts[i] = PyBytes_FromStringAndSize(NULL, 8 * words[i]));
    if (made) {
        void *place[PARTS];
        for (int i = 0; i < PARTS; i++) place[i] = PyBytes_AsString(parts[i]);
        Columns to = {.executions = place[0], .identities = place[1], .outputs = place[2],
                      .shapes = place[3], .moments = place[4], .histograms = place[5],
                      .previews = place[6], .specs = place[7]};
        const int64_t *seqs = (const int64_t *)PyBytes_AsString(firsts);
        Py_BEGIN_ALLOW_THREADS
        fill(blocks, count, seqs, bins, &to);
        Py_END_ALLOW_THREADS
        specs = PyBytes_FromStringAndSize(place[7], (char *)to.specs - (char *)place[7]);
        if (specs)
            all = Py_BuildValue("OOOOOOOO(LLL)", parts[0], parts[1], parts[2], parts[3], parts[4],
                                parts[5], parts[6], specs, (long long)to.counts[0],
                                (long long)to.counts[1], (long long)to.counts[2]);
    }
    PyMem_Free(blocks);
    Py_XDECREF(specs);
    for (int i = 0; i < PARTS; i++) Py_XDECREF(parts[i]);
    return all;
}

/* ------------------------------------------------------------------ the type */

static PyMethodDef outputs_methods[] = {
    {"take", outputs_take, METH_NOARGS, take_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef outputs_members[] = {
    {"asleep", T_BOOL, offsetof(NotedOutputs, asleep), 0, "Whether the writer is to be woken."},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(outputs_doc,
"NotedOutputs(most, most_bytes, when_full, wake)\n--\n\n"
"Executions noted with copies of their outputs. Call it with the node, its id, step, thread, start,\n"
"end, and tuples of the arrays that the execution read and returned; it returns whether the execution\n"
"was noted.\n\n"
"Args:\n"
"    most, most_bytes: Number of executions, and bytes, at which `when_full` is called, which takes\n"
"        them.\n"
"    when_full, wake: As in `NotedTimes`.\n");

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

static PyMethodDef functions[] = {
    {"summarise_noted", py_summarise_noted, METH_VARARGS, summarise_noted_doc},
    {NULL, NULL, 0, NULL},
};

int add_outputs(PyObject *module) {
    if (name(&names.dtype, "dtype") < 0 || name(&names.char_, "char") < 0 ||
        name(&names.isnative, "isnative") < 0 || name(&names.outputs, "outputs") < 0)
        return -1;
    if (!outputs_type) outputs_type = (PyTypeObject *)PyType_FromSpec(&outputs_spec);
    if (!outputs_type || PyModule_AddFunctions(module, functions) < 0) return -1;
    return PyModule_AddObjectRef(module, "NotedOutputs", (PyObject *)outputs_type);
}
