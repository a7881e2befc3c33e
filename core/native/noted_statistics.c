/* Statistics of noted outputs, in columns. */
#include "noted_statistics.h"

#include "memory.h"
#include "noted_records.h"

#define SPECS 256 /* most pairs of type and shape that are distinguished at a time */
#define EXECUTION 7  /* number of int64 per execution: see `summarise_noted` */
#define OUTPUT 14    /* and per output */
#define OTHERS 3     /* how many kinds of outputs are counted */

typedef struct {
    int64_t *executions, *outputs, *shapes, *specs;
    uint64_t *identities, *histograms;
    double *moments, *previews;
    int64_t counts[OTHERS]; /* without statistics, with NaN or Inf, and not in C order */
} Columns;

enum { COUNTS = 5 };

/* Add the numbers of executions, outputs, sizes, identities and digests in a block; 0 if it is malformed.
 */
static int counted(const Block *block, Py_ssize_t many[COUNTS]) {
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
            if (at[1] & DIGESTED && at[3] != sizeof(Digest)) return 0;
            many[2] += 2 * at[2];
            many[4] += !!(at[1] & DIGESTED);
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

/* A type without its mark. */
static int64_t type_of(int64_t code) { return code & (DIGESTED - 1); }

/* The index of an output's type and shape among the distinct ones. */
static int64_t kind_of(const int64_t *output, int64_t bytes, Kinds *kinds) {
    int64_t type = type_of(output[1]);
    uint64_t mark = (uint64_t)type ^ (uint64_t)output[2] << 8;
    for (int64_t axis = 0; axis < output[2]; axis++)
        mark = (mark ^ (uint64_t)output[4 + axis]) * 0x9e3779b97f4a7c15u;
    size_t at = (size_t)(mark >> 32) % (2 * SPECS);
    for (; kinds->places[at].output; at = (at + 1) % (2 * SPECS)) {
        const int64_t *other = kinds->places[at].output;
        if (type_of(other[1]) == type && other[2] == output[2] &&
            !memcmp(other + 4, output + 4, (size_t)(8 * output[2])))
            return kinds->places[at].kind;
    }
    if (kinds->count < SPECS) {
        kinds->places[at].output = output;
        kinds->places[at].kind = kinds->count;
    }
    *kinds->next++ = type;
    *kinds->next++ = bytes;
    *kinds->next++ = output[2];
    memcpy(kinds->next, output + 4, (size_t)(8 * output[2]));
    kinds->next += output[2];
    return kinds->count++;
}

/* Summarise the copy of an output. Returns whether that failed; the statistics are zero then. */
static int summarise_copy(const int64_t *at, int bins, Digest *digest, uint64_t *histogram) {
    int dimensions = (int)at[2];
    const int64_t *shape = at + 4;
    Source source; /* without initialiser: it has room for many dimensions */
    Summary summary;
    int64_t size = 1;
    for (int axis = 0; axis < dimensions; axis++) size *= shape[axis];
    source.data = (const char *)(shape + 2 * dimensions);
    source.code = (char)at[1];
    source.dimensions = dimensions;
    source.itemsize = (int)(at[3] / (size ? size : 1));
    int64_t stride = source.itemsize;
    for (int axis = dimensions - 1; axis >= 0; axis--) {
        source.shape[axis] = shape[axis];
        source.strides[axis] = stride;
        stride *= shape[axis];
    }
    int unsafe = summarise(&source, bins, &summary);
    if (unsafe) memset(&summary, 0, sizeof summary);
    take_summary(digest, &summary, at[3]);
    if (summary.finite) memcpy(histogram, summary.histogram, (size_t)bins * sizeof *histogram);
    return unsafe;
}

/* Whether an output was in C order; its elements follow in that order in any case. */
static int was_in_order(const int64_t *at, int64_t bytes) {
    const int64_t *shape = at + 4, *strides = shape + at[2];
    int64_t size = 1;
    for (int64_t axis = 0; axis < at[2]; axis++) size *= shape[axis];
    int64_t stride = bytes / (size ? size : 1);
    for (int64_t axis = at[2] - 1; axis >= 0; axis--) {
        if (shape[axis] != 1 && strides[axis] != stride) return 0;
        stride *= shape[axis];
    }
    return 1;
}

/* Append an output to the columns; returns what follows it in its block. */
static const int64_t *add_output(const int64_t *at, int64_t seq, int64_t step, int64_t nth_block,
                                 const char *block, int bins, Kinds *kinds, Columns *to) {
    int dimensions = (int)at[2], unsafe = 0;
    const char *content = (const char *)(at + 4 + 2 * dimensions);
    Digest digest;
    if (at[1] & DIGESTED) {
        memcpy(&digest, content, sizeof digest);
        memcpy(to->histograms, digest.histogram, sizeof digest.histogram);
    } else {
        memset(to->histograms, 0, (size_t)bins * sizeof(uint64_t));
        unsafe = summarise_copy(at, bins, &digest, to->histograms);
    }
    int in_order = was_in_order(at, digest.bytes);
    int64_t row[OUTPUT] = {seq, at[0], step, kind_of(at, digest.bytes, kinds), digest.nan, digest.inf,
                           digest.zero, unsafe ? -1 : digest.finite, type_of(at[1]), digest.bytes,
                           nth_block, content - block, in_order, dimensions};
    memcpy(to->outputs, row, sizeof row);
    to->outputs += OUTPUT;
    to->counts[0] += unsafe;
    to->counts[1] += digest.nan || digest.inf;
    to->counts[2] += !in_order;
    memcpy(to->shapes, at + 4, (size_t)(16 * dimensions));
    to->shapes += 2 * dimensions;
    memcpy(to->moments, digest.moments, sizeof digest.moments);
    to->moments += 5;
    memcpy(to->previews, digest.preview, sizeof digest.preview);
    to->previews += PREVIEW;
    to->histograms += bins;
    return (const int64_t *)(content + padded(at[3]));
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
static Block *blocks_of(PyObject *triples, Py_ssize_t many[COUNTS]) {
    Py_ssize_t count = PyTuple_Size(triples);
    Block *blocks = blocks_in(triples);
    if (!blocks) return NULL;
    memset(many, 0, COUNTS * sizeof(Py_ssize_t));
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
    Py_ssize_t many[COUNTS];
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
    if (many[4] && bins != FLOAT_BINS) {
        PyMem_Free(blocks);
        PyErr_Format(PyExc_ValueError, "statistics that were computed before have %d bins", FLOAT_BINS);
        return NULL;
    }
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

static PyMethodDef functions[] = {
    {"summarise_noted", py_summarise_noted, METH_VARARGS, summarise_noted_doc},
    {NULL, NULL, 0, NULL},
};

int add_noted_statistics(PyObject *module) { return PyModule_AddFunctions(module, functions); }
