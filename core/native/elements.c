/* Places the elements of noted outputs one after the other, equal arrays once, and gathers them there. */
#include "elements.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "axes.h"
#include "memory.h"
#include "strided_copy.h"

#define PLACES 14  /* number of int64 per output, see `summarise_noted` */
#define TYPE 8
#define NBYTES 9
#define BLOCK 10
#define START 11
#define ORDER 12
#define DIMENSIONS 13
#define SAMPLES 8
#define TRIES 8     /* most earlier arrays that an array is compared with */

/* Outputs, in the columns of `summarise_noted`. */
typedef struct {
    const Block *blocks;
    const int64_t *rows, *shapes;
    Py_ssize_t many;
} Outputs;

typedef struct {
    const char *data;
    const int64_t *row, *shape;
    int64_t start, nbytes;  /* `nbytes` is 0 in an empty place */
} Known;

/* The elements of an output; NULL if they are not in its block. */
static const char *elements_of(const Block *blocks, const int64_t *row) {
    return elements_at(blocks + row[BLOCK], row[TYPE], row[START], row[NBYTES]);
}

/* Whether the elements of two outputs of the same size are in the same order. */
static int same_order(const int64_t *row, const int64_t *shape, const Known *known) {
    if (row[ORDER] != TURNED || known->row[ORDER] != TURNED)
        return row[ORDER] != TURNED && known->row[ORDER] != TURNED;
    return row[DIMENSIONS] == known->row[DIMENSIONS] &&
           !memcmp(shape, known->shape, (size_t)(16 * row[DIMENSIONS]));
}

/* The axes of an output whose elements are turned; 0 if they do not fill its memory. */
static int turned_axes(const int64_t *row, const int64_t *shape, Axes *axes) {
    int64_t size = 1, itemsize;
    for (int64_t axis = 0; axis < row[DIMENSIONS]; axis++) {
        if (shape[axis] < 1 || shape[axis] > row[NBYTES] / size) return 0;
        size *= shape[axis];
    }
    itemsize = row[NBYTES] / size;
    if (row[NBYTES] % size || itemsize > 8 || itemsize & (itemsize - 1)) return 0;
    read_axes(axes, shape, (int)row[DIMENSIONS], (Py_ssize_t)itemsize);
    return order_of(axes->dimensions, axes->shape, axes->strides, axes->itemsize) != SCATTERED;
}

/* A hash of an array, computed from a sample of its words. */
static uint64_t mark_of(const char *data, int64_t nbytes) {
    uint64_t mark = (uint64_t)nbytes, word;
    int64_t last = nbytes - 8, step = last / (SAMPLES - 1) / 8 * 8;
    for (int i = 0; i < SAMPLES; i++) {
        int64_t at = i == SAMPLES - 1 ? last : i * step;
        memcpy(&word, data + at, 8);
        mark = (mark ^ word) * 0x9e3779b97f4a7c15u;
        mark ^= mark >> 29;
    }
    return mark;
}

/* Copy turned elements in C order; 0 if their axes do not fill so many bytes. */
static int turn_back(char *to, const char *from, const int64_t *row, const int64_t *shape) {
    Axes axes;
    if (!turned_axes(row, shape, &axes)) return 0;
    const Py_buffer view = {.buf = (void *)from, .itemsize = axes.itemsize, .ndim = axes.dimensions,
                            .shape = axes.shape, .strides = axes.strides};
    copy_in_order(to, &view);
    return 1;
}

/* Whether the elements of two outputs of the same size are the same; if they lie in different orders, they count as
   different. */
static int same_elements(const char *data, const int64_t *row, const int64_t *shape, const Known *known) {
    return same_order(row, shape, known) &&
           (known->data == data || !memcmp(known->data, data, (size_t)known->nbytes));
}

/* Place the elements of all outputs one after the other; returns the number of bytes used. */
static int64_t place(const Outputs *outputs, Known *known, uint64_t most, int64_t *starts) {
    const int64_t *row = outputs->rows, *shape = outputs->shapes;
    int64_t used = 0;
    for (Py_ssize_t i = 0; i < outputs->many; shape += 2 * row[DIMENSIONS], row += PLACES, i++) {
        const char *data = elements_of(outputs->blocks, row);
        int64_t nbytes = row[NBYTES];
        if (nbytes >= COMPARED) {
            uint64_t mark = mark_of(data, nbytes);
            Known *at = NULL;
            for (int tries = 0; tries < TRIES; tries++) {
                at = known + ((mark + (uint64_t)tries) & (most - 1));
                if (!at->nbytes) break;
                if (at->nbytes == nbytes && same_elements(data, row, shape, at)) {
                    starts[i] = at->start;
                    goto next;
                }
            }
            *at = (Known){data, row, shape, used, nbytes};
        }
        starts[i] = used;
        used += nbytes;
next:;
    }
    return used;
}

int64_t place_outputs(const Block *blocks, const int64_t *rows, const int64_t *shapes, Py_ssize_t many,
                      int64_t *starts) {
    const Outputs outputs = {blocks, rows, shapes, many};
    uint64_t most = 8;
    while (most < 2 * (uint64_t)many) most *= 2;
    Known *known = calloc(most, sizeof(Known));
    int64_t used = known ? place(&outputs, known, most, starts) : -1;
    free(known);
    return used;
}

/* Copy the elements of outputs to where `place` has placed them: equal ones follow the first. */
static int64_t gather(const Outputs *outputs, const int64_t *starts, char *to, int64_t most) {
    const int64_t *row = outputs->rows, *shape = outputs->shapes;
    int64_t used = 0;
    for (Py_ssize_t i = 0; i < outputs->many; shape += 2 * row[DIMENSIONS], row += PLACES, i++) {
        const char *from = elements_of(outputs->blocks, row);
        int64_t nbytes = row[NBYTES];
        if (starts[i] != used || nbytes > most - used) continue;
        if (row[ORDER] != TURNED || !turn_back(to + used, from, row, shape))
            memcpy(to + used, from, (size_t)nbytes);
        used += nbytes;
    }
    return used;
}

/* The blocks of outputs, to be freed by the caller; NULL with an exception set if these are not the
   outputs' blocks or shapes. Sets the outputs, and the number of bytes of all of them. */
static Block *blocks_of(PyObject *pieces, const Py_buffer *rows, const Py_buffer *shapes, Outputs *outputs,
                        int64_t *nbytes) {
    Py_ssize_t count = PyTuple_Size(pieces), numbers = shapes->len / 8;
    Block *blocks = blocks_in(pieces);
    const int64_t *row = rows->buf;
    *outputs = (Outputs){blocks, row, shapes->buf, rows->len / (8 * PLACES)};
    *nbytes = 0;
    for (Py_ssize_t i = 0; blocks && i < outputs->many; i++, row += PLACES) {
        int64_t axes = row[DIMENSIONS];
        numbers -= axes < 0 || axes > MOST_AXES ? numbers + 1 : 2 * (Py_ssize_t)axes;
        if (numbers < 0 || row[BLOCK] < 0 || row[BLOCK] >= count || row[NBYTES] < 1 || !elements_of(blocks, row)) {
            PyErr_SetString(PyExc_ValueError, "these are no outputs of these blocks");
            PyMem_Free(blocks);
            return NULL;
        }
        *nbytes += row[NBYTES];
    }
    return blocks;
}

PyDoc_STRVAR(place_doc,
"place_elements(blocks, outputs, shapes)\n--\n\n"
"Place the elements of noted outputs one after the other, equal arrays at the same place; releases\n"
"the interpreter's lock.\n\n"
"Args:\n"
"    blocks, outputs, shapes: The blocks passed to `summarise_noted`, and the outputs and shapes that\n"
"        it returned.\n\n"
"Returns:\n"
"    The number of bytes, and the offset of each output's elements, int64.\n");

static PyObject *py_place(PyObject *module, PyObject *arguments) {
    PyObject *pieces, *starts = NULL, *both = NULL;
    Py_buffer rows, shapes;
    if (!PyArg_ParseTuple(arguments, "O!y*y*", &PyTuple_Type, &pieces, &rows, &shapes)) return NULL;
    Outputs outputs;
    int64_t nbytes, used = 0;
    Block *blocks = blocks_of(pieces, &rows, &shapes, &outputs, &nbytes);
    Py_ssize_t many = outputs.many;
    if (blocks && (starts = PyBytes_FromStringAndSize(NULL, 8 * many))) {
        int64_t *at = (int64_t *)PyBytes_AsString(starts);
        Py_BEGIN_ALLOW_THREADS
        used = place_outputs(blocks, outputs.rows, outputs.shapes, many, at);
        Py_END_ALLOW_THREADS
        both = used < 0 ? PyErr_NoMemory() : Py_BuildValue("LO", (long long)used, starts);
    }
    PyMem_Free(blocks);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&shapes);
    Py_XDECREF(starts);
    return both;
}

PyDoc_STRVAR(gather_doc,
"gather_elements(blocks, outputs, shapes, starts, nbytes)\n--\n\n"
"Copy the elements of noted outputs to their places, in C order; releases the interpreter's lock.\n\n"
"Args:\n"
"    blocks, outputs, shapes: As in `place_elements`.\n"
"    starts, nbytes: What it returned.\n\n"
"Returns:\n"
"    The elements, a `Memory`.\n");

static PyObject *py_gather(PyObject *module, PyObject *arguments) {
    PyObject *pieces, *elements = NULL;
    Py_buffer rows, shapes, starts;
    long long nbytes;
    if (!PyArg_ParseTuple(arguments, "O!y*y*y*L", &PyTuple_Type, &pieces, &rows, &shapes, &starts, &nbytes))
        return NULL;
    Outputs outputs;
    int64_t all;
    Block *blocks = blocks_of(pieces, &rows, &shapes, &outputs, &all);
    if (blocks && (starts.len < 8 * outputs.many || nbytes < 0 || nbytes > all))
        PyErr_SetString(PyExc_ValueError, "these are no places of these outputs");
    else if (blocks && (elements = new_memory((Py_ssize_t)nbytes))) {
        Py_ssize_t size;
        char *to = memory_of(elements, &size);
        int64_t used;
        Py_BEGIN_ALLOW_THREADS
        used = gather(&outputs, starts.buf, to, nbytes);
        Py_END_ALLOW_THREADS
        cut_memory(elements, (Py_ssize_t)used);
    }
    PyMem_Free(blocks);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&shapes);
    PyBuffer_Release(&starts);
    return elements;
}

/* The statistics of an output's elements as they are now; 0 if there are none. */
static int digest_of(const char *data, const int64_t *row, const int64_t *shape, Digest *digest) {
    Axes axes;
    int64_t size = 1;
    for (int64_t axis = 0; axis < row[DIMENSIONS]; axis++) size *= shape[axis];
    if (size < 1 || row[NBYTES] % size || row[NBYTES] / size > 8) return 0;
    read_axes(&axes, shape, (int)row[DIMENSIONS], (Py_ssize_t)(row[NBYTES] / size));
    return digest_elements(data, (int)(row[TYPE] & TYPES), &axes, row[NBYTES], digest);
}

/* The places of held outputs whose elements are not those of their statistics; returns how many. Outputs that repeat
   an earlier one, perhaps with other axes, are as good as it is: `states` has a zero for each held array. */
static Py_ssize_t changed(const Outputs *outputs, const int64_t *starts, char *const *states, int64_t *places) {
    enum { UNKNOWN, SAME, CHANGED };
    const int64_t *row = outputs->rows, *shape = outputs->shapes;
    int64_t used = 0;
    Py_ssize_t many = 0;
    for (Py_ssize_t i = 0; i < outputs->many; shape += 2 * row[DIMENSIONS], row += PLACES, i++) {
        int first = starts[i] == used;
        if (first) used += row[NBYTES];
        if (!(row[TYPE] & HELD)) continue;
        HeldOutput held;
        Digest now;
        memcpy(&held, outputs->blocks[row[BLOCK]].start + row[START], sizeof held);
        char *state = states[row[BLOCK]] + held.index;
        if (*state == UNKNOWN) {
            int known = digest_of(elements_of(outputs->blocks, row), row, shape, &now);
            *state = known && !memcmp(&now, &held.digest, sizeof now) ? SAME : CHANGED;
        }
        if (first && *state == CHANGED) places[many++] = starts[i];
    }
    return many;
}

/* Room for the states of all held arrays of blocks, zero, to be freed by the caller; NULL without memory. */
static char **states_of(const Block *blocks, Py_ssize_t count) {
    Py_ssize_t many = 0;
    for (Py_ssize_t i = 0; i < count; i++) many += blocks[i].many_held;
    char **states = PyMem_Calloc((size_t)count + 1, sizeof *states);
    char *at = states ? PyMem_Calloc((size_t)many + 1, 1) : NULL;
    if (!at) {
        PyMem_Free(states);
        return NULL;
    }
    states[0] = at;
    for (Py_ssize_t i = 0; i < count; at += blocks[i++].many_held) states[i] = at;
    return states;
}

PyDoc_STRVAR(changed_doc,
"changed_elements(blocks, outputs, shapes, starts)\n--\n\n"
"Find held arrays that were written to after they were noted; releases the interpreter's lock. The places of\n"
"elements that were gathered before hold the noted ones unless they are among the result.\n\n"
"Args:\n"
"    blocks, outputs, shapes, starts: As in `gather_elements`.\n\n"
"Returns:\n"
"    The places of their elements, int64.\n");

static PyObject *py_changed(PyObject *module, PyObject *arguments) {
    PyObject *pieces, *found = NULL;
    Py_buffer rows, shapes, starts;
    if (!PyArg_ParseTuple(arguments, "O!y*y*y*", &PyTuple_Type, &pieces, &rows, &shapes, &starts)) return NULL;
    Outputs outputs;
    int64_t all;
    Block *blocks = blocks_of(pieces, &rows, &shapes, &outputs, &all);
    int64_t *places = blocks ? PyMem_Malloc((size_t)(8 * outputs.many + 8)) : NULL;
    char **states = places ? states_of(blocks, PyTuple_Size(pieces)) : NULL;
    if (blocks && starts.len < 8 * outputs.many)
        PyErr_SetString(PyExc_ValueError, "these are no places of these outputs");
    else if (states) {
        Py_ssize_t many;
        Py_BEGIN_ALLOW_THREADS
        many = changed(&outputs, starts.buf, states, places);
        Py_END_ALLOW_THREADS
        found = PyBytes_FromStringAndSize((const char *)places, 8 * many);
    } else if (blocks) PyErr_NoMemory();
    if (states) PyMem_Free(states[0]);
    PyMem_Free(states);
    PyMem_Free(places);
    PyMem_Free(blocks);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&shapes);
    PyBuffer_Release(&starts);
    return found;
}

static PyMethodDef functions[] = {
    {"changed_elements", py_changed, METH_VARARGS, changed_doc},
    {"place_elements", py_place, METH_VARARGS, place_doc},
    {"gather_elements", py_gather, METH_VARARGS, gather_doc},
    {NULL, NULL, 0, NULL},
};

int add_elements(PyObject *module) { return PyModule_AddFunctions(module, functions); }
