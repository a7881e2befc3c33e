/* Statistics of noted outputs, in columns. */
#include "noted_statistics.h"

#include <stdlib.h>

#include "axes.h"
#include "elements.h"
#include "memory.h"
#include "noted_records.h"

#define SPECS 256 /* most pairs of type and shape that are distinguished at a time */
#define EXECUTION 7  /* number of int64 per execution: see `summarise_noted` */
#define OUTPUT 14    /* and per output: */
#define IDENTITY 4   /* seq, value, step, index of its type and shape; then facts, order and dimensions */
#define OTHERS 3     /* how many kinds of outputs are counted */

/* What an output shares with those that repeat it. */
enum { NANS, INFS, ZEROS, FINITE, TYPE, BYTES, BLOCK, OFFSET, FACTS };

/* int64 of which it is not known beforehand how many there are. */
typedef struct {
    int64_t *all;
    size_t many, room;
} Growing;

typedef struct {
    int64_t *executions, *outputs;
    int64_t more_executions, more_outputs; /* for how many there is room */
    double *moments, *previews;
    uint32_t *histograms;
    Growing identities, shapes, specs;
    int64_t counts[OTHERS]; /* without statistics, with NaN or Inf, and not in C order */
} Columns;

enum { FILLED, MALFORMED, NO_MEMORY };

/* Room for more int64 at the end; NULL without memory. */
static int64_t *grown(Growing *numbers, int64_t more) {
    size_t many = numbers->many + (size_t)more;
    if (!numbers->all || numbers->room < many) {
        int64_t *all = realloc(numbers->all, 8 * (2 * many + 256));
        if (!all) return NULL;
        numbers->all = all;
        numbers->room = 2 * many + 256;
    }
    numbers->many = many;
    return numbers->all + many - more;
}

/* A type without its marks. */
static int64_t type_of(int64_t code) { return code & TYPES; }

/* The elements of an output, whose row has these facts; NULL if they are not there. */
static const char *elements_of(const int64_t *facts, const Block *block) {
    return elements_at(block, facts[TYPE], facts[OFFSET], facts[BYTES]);
}

static int64_t itemsize_of(int64_t type) {
    switch (type) {
    case 'd': case 'q': case 'Q': return 8;
    case 'l': case 'L': return sizeof(long);
    case 'f': case 'i': case 'I': return 4;
    case 'e': case 'h': case 'H': return 2;
    default: return 1;
    }
}

/* The bytes of an output's elements by its type and shape; -1 if they would be more than `most`. */
static int64_t bytes_of_shape(const int64_t *at, int64_t most) {
    int64_t bytes = itemsize_of(type_of(at[1]));
    for (const int64_t *length = at + 4; length < at + 4 + at[2]; length++) {
        if (*length < 0 || (*length && bytes > most / *length)) return -1;
        bytes *= *length;
    }
    return bytes;
}

/* The axes of an output as its elements lie in the record, if `bytes` are all of them. Returns their order in
   the program's memory. */
static int axes_of(const int64_t *at, int64_t bytes, Axes *axes) {
    int64_t size = 1;
    for (int64_t axis = 0; axis < at[2]; axis++) size *= at[4 + axis];
    read_axes(axes, at + 4, (int)at[2], (Py_ssize_t)(bytes / (size ? size : 1)));
    int order = order_of(axes->dimensions, axes->shape, axes->strides, axes->itemsize);
    if (order == SCATTERED) put_in_order(axes);
    return order;
}

/* Whether an execution, with its outputs, lies within a block. This is checked right before it is read:
   going through all of them beforehand would wait for memory at each. */
static int is_sound(const Block *block, Py_ssize_t place, int bins) {
    const int64_t *at = (const int64_t *)(block->start + place);
    Py_ssize_t rest = block->end - place;
    if (rest < 8 * HEAD || at[0] < 8 * HEAD || at[0] > rest || at[0] % 8) return 0;
    int64_t left = at[0] / 8 - HEAD, reads = at[6], gives = at[7];
    if (reads < 0 || gives < 0 || reads > left || gives > MOST_OUTPUTS || reads + gives > left)
        return 0;
    left -= reads + gives;
    at += HEAD + reads + gives;
    for (int64_t i = 0; i < gives; i++) {
        if (left < 4 || at[2] < 0 || at[2] > MOST_AXES || at[3] < 1 || at[3] > rest) return 0;
        int64_t words = 4 + 2 * at[2] + padded(at[3]) / 8;
        if (words > left || !summary_reads((char)type_of(at[1]))) return 0;
        if (at[1] & (DIGESTED | HELD)) {
            Axes axes;
            int64_t bytes;
            const char *content = (const char *)(at + 4 + 2 * at[2]);
            int held = !!(at[1] & HELD);
            if (at[3] != (held ? sizeof(HeldOutput) : sizeof(Digest)) || bins != FLOAT_BINS) return 0;
            memcpy(&bytes, content + (held ? offsetof(HeldOutput, digest) : 0) + offsetof(Digest, bytes), 8);
            if (bytes < 1 || bytes != bytes_of_shape(at, INT64_MAX)) return 0;
            if (held && (!elements_at(block, HELD, content - block->start, bytes) ||
                         axes_of(at, bytes, &axes) == SCATTERED))
                return 0;
        } else if (at[3] != (at[1] & REPEATED ? 8 : bytes_of_shape(at, rest))) return 0;
        left -= words;
        at += words;
    }
    return !left;
}

/* The distinct types and shapes, by hash; once there are SPECS of them, each output has its own. */
typedef struct {
    struct { const int64_t *output; int64_t kind; } places[2 * SPECS];
    int64_t count;
} Kinds;

/* The index of an output's type and shape among the distinct ones; -1 without memory. `specs` takes a new
   one: type, bytes, number of dimensions, shape. */
static int64_t kind_of(const int64_t *output, int64_t bytes, Kinds *kinds, Growing *specs) {
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
    int64_t *spec = grown(specs, 3 + output[2]);
    if (!spec) return -1;
    spec[0] = type;
    spec[1] = bytes;
    spec[2] = output[2];
    memcpy(spec + 3, output + 4, (size_t)(8 * output[2]));
    if (kinds->count < SPECS) {
        kinds->places[at].output = output;
        kinds->places[at].kind = kinds->count;
    }
    return kinds->count++;
}

/* Summarise the copy of an output. Returns whether that failed; the statistics are zero then. */
static int summarise_copy(const int64_t *at, int bins, Digest *digest, uint32_t *histogram) {
    Axes axes;
    Source source;
    Summary summary;
    axes_of(at, at[3], &axes);
    describe(&source, (const char *)(at + 4 + 2 * at[2]), (int)at[1], &axes);
    int unsafe = summarise(&source, bins, &summary);
    if (unsafe) memset(&summary, 0, sizeof summary);
    take_summary(digest, &summary, at[3]);
    take_histogram(histogram, &summary, bins);
    return unsafe;
}

/* Whether an output that is the `nth` of its block can repeat the `earlier` one. Scattered elements never do:
   the copy is in C order. */
static int can_repeat(const int64_t *at, int64_t earlier, int64_t nth, const Block *block, const Columns *to) {
    if (earlier < 0 || earlier >= nth) return 0;
    const int64_t *facts = to->outputs - OUTPUT * (nth - earlier) + IDENTITY;
    Axes axes;
    return type_of(facts[TYPE]) == type_of(at[1]) && facts[BYTES] == bytes_of_shape(at, facts[BYTES]) &&
           axes_of(at, facts[BYTES], &axes) != SCATTERED && facts[FACTS] != SCATTERED &&
           !(facts[TYPE] & HELD) && elements_of(facts, block);
}

/* Append an output's row to the columns, whose statistics are there already; 0 without memory. */
static int add_row(const int64_t *at, int64_t seq, int64_t step, const int64_t *facts, Kinds *kinds,
                   int bins, Columns *to) {
    int64_t dimensions = at[2], bytes = facts[BYTES];
    Axes axes;
    int64_t kind = kind_of(at, bytes, kinds, &to->specs), order = axes_of(at, bytes, &axes);
    int64_t *sizes = grown(&to->shapes, 2 * dimensions);
    if (kind < 0 || !sizes) return 0;
    memcpy(sizes, at + 4, (size_t)(16 * dimensions));
    const int64_t identity[IDENTITY] = {seq, at[0], step, kind};
    memcpy(to->outputs, identity, sizeof identity);
    memcpy(to->outputs + IDENTITY, facts, FACTS * sizeof *facts);
    to->outputs[IDENTITY + FACTS] = order;
    to->outputs[IDENTITY + FACTS + 1] = dimensions;
    to->outputs += OUTPUT;
    to->counts[0] += facts[FINITE] < 0;
    to->counts[1] += facts[NANS] || facts[INFS];
    to->counts[2] += order != IN_ORDER;
    to->moments += 5;
    to->previews += PREVIEW;
    to->histograms += bins;
    return 1;
}

/* Append an output to the columns; 0 without memory. */
static int add_output(const int64_t *at, int64_t seq, int64_t step, int64_t nth_block, const char *block,
                      int bins, Kinds *kinds, Columns *to) {
    int unsafe = 0;
    const char *content = (const char *)(at + 4 + 2 * at[2]);
    Digest digest;
    if (at[1] & (DIGESTED | HELD)) {
        memcpy(&digest, content + (at[1] & HELD ? offsetof(HeldOutput, digest) : 0), sizeof digest);
        memcpy(to->histograms, digest.histogram, sizeof digest.histogram);
    } else {
        unsafe = summarise_copy(at, bins, &digest, to->histograms);
    }
    memcpy(to->moments, digest.moments, sizeof digest.moments);
    memcpy(to->previews, digest.preview, sizeof digest.preview);
    const int64_t facts[FACTS] = {digest.nan, digest.inf, digest.zero, unsafe ? -1 : digest.finite,
                                  at[1] & (TYPES | HELD), digest.bytes, nth_block, content - block};
    return add_row(at, seq, step, facts, kinds, bins, to);
}

/* The same for an output that repeats an earlier one, whose row is so many rows before. */
static int add_repeated(const int64_t *at, int64_t seq, int64_t step, int64_t before, const Block *block,
                        int bins, Kinds *kinds, Columns *to) {
    const int64_t *facts = to->outputs - OUTPUT * before + IDENTITY;
    Axes axes;
    memcpy(to->moments, to->moments - 5 * before, 5 * sizeof *to->moments);
    memcpy(to->histograms, to->histograms - bins * before, (size_t)bins * sizeof *to->histograms);
    if (axes_of(at, facts[BYTES], &axes) == IN_ORDER && facts[FACTS] == IN_ORDER) {
        memcpy(to->previews, to->previews - PREVIEW * before, PREVIEW * sizeof *to->previews);
    } else { /* the first elements are others if the axes are */
        Source source;
        Summary summary = {.size = facts[BYTES] / axes.itemsize};
        describe(&source, elements_of(facts, block), (int)type_of(facts[TYPE]), &axes);
        summary_preview(&source, &summary);
        memcpy(to->previews, summary.preview, PREVIEW * sizeof *to->previews);
    }
    return add_row(at, seq, step, facts, kinds, bins, to);
}

static int fill(const Block *blocks, Py_ssize_t count, const int64_t *firsts, int bins, Columns *to) {
    Kinds kinds = {.count = 0};
    for (int64_t nth_block = 0; nth_block < count; nth_block++) {
        const Block *block = blocks + nth_block;
        int64_t seq = firsts[nth_block], nth = 0;
        for (Py_ssize_t place = block->begin; place < block->end; seq++) {
            const int64_t *at = (const int64_t *)(block->start + place);
            if (!is_sound(block, place, bins)) return MALFORMED;
            int64_t reads = at[6], gives = at[7], step = at[2];
            to->more_outputs -= gives;
            if (--to->more_executions < 0 || to->more_outputs < 0) return MALFORMED;
            uint64_t took = (uint64_t)at[5] - (uint64_t)at[4];
            int64_t row[EXECUTION] = {seq, at[1], step, at[3], at[4], (int64_t)took, reads + gives};
            memcpy(to->executions, row, sizeof row);
            to->executions += EXECUTION;
            int64_t *identities = grown(&to->identities, reads + gives);
            if (!identities) return NO_MEMORY;
            memcpy(identities, at + HEAD, (size_t)(8 * (reads + gives)));
            place += at[0];
            at += HEAD + reads + gives;
            for (int64_t i = 0; i < gives; i++, nth++) {
                const int64_t *content = at + 4 + 2 * at[2];
                int repeats = !!(at[1] & REPEATED);
                if (repeats && !can_repeat(at, *content, nth, block, to)) return MALFORMED;
                int added = repeats
                    ? add_repeated(at, seq, step, nth - *content, block, bins, &kinds, to)
                    : add_output(at, seq, step, nth_block, block->start, bins, &kinds, to);
                if (!added) return NO_MEMORY;
                at = content + padded(at[3]) / 8;
            }
        }
    }
    return to->more_executions || to->more_outputs ? MALFORMED : FILLED;
}

PyDoc_STRVAR(summarise_noted_doc,
"summarise_noted(blocks, firsts, executions, outputs, bins, place=False)\n--\n\n"
"Statistics of noted executions, in columns; releases the interpreter's lock.\n\n"
"Args:\n"
"    blocks: A tuple of tuples: memory, begin and end of the executions in it, and the arrays that they\n"
"        refer to, if any.\n"
"    firsts: The seq of the first execution in each block, int64.\n"
"    executions, outputs: How many there are in all blocks.\n"
"    bins: The number of bins of the histograms; 32 if statistics were computed before.\n"
"    place: Whether the elements are placed, too.\n\n"
"Returns:\n"
"    Eight bytes objects, and two tuples. For each execution, int64: seq, node, step, thread, start,\n"
"    duration, and the number of arrays that it read and returned. The identities of these arrays,\n"
"    uint64. For each output, int64: seq, value, step, index of its type and shape, counts of NaN, Inf,\n"
"    zeros and finite elements (-1 if statistics could not be computed), type, bytes, index of its\n"
"    block, offset of its elements there, their order, and number of dimensions. 1024 is added to the type if\n"
"    the elements are in a held array, whose index, int64, is at the offset instead. The order is 1 for\n"
"    C order, -1 if they lie as their strides say, 0 if they were scattered and are in C order now.\n"
"    The shapes and strides of all outputs. Low, high, mean, std, norm, float64. The histograms, uint32.\n"
"    The first elements, float64. The types and shapes, int64: type, bytes, number of dimensions,\n"
"    shape. The tuples: how many outputs have no statistics, have NaN or Inf, and were not in C order;\n"
"    what `place_elements` returns, or None.\n");

static PyObject *bytes_of(const Growing *numbers) {
    return PyBytes_FromStringAndSize((const char *)numbers->all, 8 * (Py_ssize_t)numbers->many);
}

/* The columns as they are returned; NULL with an exception set. */
static PyObject *columns_of(const Block *blocks, Py_ssize_t count, const int64_t *firsts,
                            Py_ssize_t executions, Py_ssize_t outputs, int bins, int places) {
    enum { PARTS = 9 };
    const Py_ssize_t bytes[PARTS] = {8 * EXECUTION * executions, 0, 8 * OUTPUT * outputs, 0,
                                     40 * outputs, 4 * bins * outputs, 8 * PREVIEW * outputs, 0,
                                     places ? 8 * outputs : 0};
    PyObject *parts[PARTS] = {NULL}, *all = NULL;
    void *place[PARTS] = {NULL};
    int made = 1, state = FILLED;
    int64_t used = 0;
    for (int i = 0; made && i < PARTS; i++) {
        if (i == 1 || i == 3 || i == 7) continue; /* those that grow */
        made = !!(parts[i] = PyBytes_FromStringAndSize(NULL, bytes[i]));
        if (made) place[i] = PyBytes_AsString(parts[i]);
    }
    Columns to = {.executions = place[0], .outputs = place[2], .moments = place[4],
                  .histograms = place[5], .previews = place[6], .more_executions = executions,
                  .more_outputs = outputs};
    if (made) {
        Py_BEGIN_ALLOW_THREADS
        state = fill(blocks, count, firsts, bins, &to);
        if (places && state == FILLED)
            used = place_outputs(blocks, place[2], to.shapes.all, outputs, place[8]);
        if (used < 0) state = NO_MEMORY;
        Py_END_ALLOW_THREADS
        made = state == FILLED && (parts[1] = bytes_of(&to.identities)) &&
               (parts[3] = bytes_of(&to.shapes)) && (parts[7] = bytes_of(&to.specs));
    }
    if (state == NO_MEMORY) PyErr_NoMemory();
    if (state == MALFORMED)
        PyErr_SetString(PyExc_ValueError, "this is no block of noted executions");
    if (made)
        all = Py_BuildValue("OOOOOOOO(LLL)N", parts[0], parts[1], parts[2], parts[3], parts[4],
                            parts[5], parts[6], parts[7], (long long)to.counts[0],
                            (long long)to.counts[1], (long long)to.counts[2],
                            places ? Py_BuildValue("LO", (long long)used, parts[8]) : Py_NewRef(Py_None));
    free(to.identities.all);
    free(to.shapes.all);
    free(to.specs.all);
    for (int i = 0; i < PARTS; i++) Py_XDECREF(parts[i]);
    return all;
}

static PyObject *py_summarise_noted(PyObject *module, PyObject *arguments) {
    const Py_ssize_t most = PY_SSIZE_T_MAX / (8 * MOST_BINS);
    PyObject *pieces, *firsts, *all = NULL;
    Py_ssize_t executions, outputs;
    int bins, places = 0;
    if (!PyArg_ParseTuple(arguments, "O!Snni|p", &PyTuple_Type, &pieces, &firsts, &executions,
                          &outputs, &bins, &places))
        return NULL;
    if (bins < 1 || bins > MOST_BINS) {
        PyErr_Format(PyExc_ValueError, "a histogram has 1 to %d bins", MOST_BINS);
        return NULL;
    }
    Py_ssize_t count = PyTuple_Size(pieces);
    if (PyBytes_Size(firsts) != 8 * count) {
        PyErr_SetString(PyExc_ValueError, "each block has a first seq");
        return NULL;
    }
    if (executions < 0 || executions > most || outputs < 0 || outputs > most) {
        PyErr_SetString(PyExc_ValueError, "there is no such number of executions or outputs");
        return NULL;
    }
    Block *blocks = blocks_in(pieces);
    if (!blocks) return NULL;
    int aligned = 1;
    for (Py_ssize_t i = 0; i < count; i++) aligned &= blocks[i].begin % 8 == 0;
    if (!aligned) PyErr_SetString(PyExc_ValueError, "this is no block of noted executions");
    else
        all = columns_of(blocks, count, (const int64_t *)PyBytes_AsString(firsts), executions, outputs,
                         bins, places);
    PyMem_Free(blocks);
    return all;
}

static PyMethodDef functions[] = {
    {"summarise_noted", py_summarise_noted, METH_VARARGS, summarise_noted_doc},
    {NULL, NULL, 0, NULL},
};

int add_noted_statistics(PyObject *module) { return PyModule_AddFunctions(module, functions); }
