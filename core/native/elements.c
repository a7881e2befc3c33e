/* Places the elements of noted outputs one after the other, equal arrays once, and gathers them there. */
#include "elements.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "axes.h"
#include "memory.h"
#include "memory_hash.h"
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

/* The elements at a place. */
typedef struct {
    int64_t start;
    const int64_t *row; /* the output that they were copied from */
    const char *data;   /* in the order of the program's memory */
    uint64_t hash;
    int hashed, used;   /* `used`: whether an output has them */
} Placed;

typedef struct {
    Placed *placed; /* by start */
    Py_ssize_t many;
    char *turned; /* room for the copy of a held array */
    int64_t room;
} Gathering;

static uint64_t hash_at(Placed *placed) {
    if (!placed->hashed) placed->hash = hash_of(placed->data, placed->row[NBYTES]);
    placed->hashed = 1;
    return placed->hash;
}

/* The elements at a place; NULL if there are none. */
static Placed *placed_at(const Gathering *all, int64_t start) {
    Py_ssize_t low = 0, high = all->many;
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        if (all->placed[middle].start < start) low = middle + 1;
        else high = middle;
    }
    return low < all->many && all->placed[low].start == start ? all->placed + low : NULL;
}

/* Copy an output's elements to a place, in C order. As the program may write to a held array at any time, it is read
   once, and the hash is that of the copy. Returns 0 without memory. */
static int copy_to(Gathering *all, Placed *placed, const Block *blocks, const int64_t *row, const int64_t *shape,
                   char *to) {
    const char *from = elements_of(blocks, row);
    int64_t nbytes = row[NBYTES];
    int is_turned = row[ORDER] == TURNED, held = !!(row[TYPE] & HELD);
    if (is_turned && held) {
        if (all->room < nbytes) {
            char *larger = realloc(all->turned, (size_t)nbytes);
            if (!larger) return 0;
            all->turned = larger;
            all->room = nbytes;
        }
        memcpy(all->turned, from, (size_t)nbytes);
        from = all->turned;
    }
    if (!is_turned || !turn_back(to, from, row, shape)) memcpy(to, from, (size_t)nbytes);
    *placed = (Placed){.start = placed->start, .row = row, .data = is_turned ? from : to};
    if (held) hash_at(placed);
    return 1;
}

/* Whether the elements at a place are those of an output, as it was noted. */
static int is_same(Placed *placed, const Block *blocks, const int64_t *row) {
    HeldOutput held;
    if (!(row[TYPE] & HELD)) /* a copy: it was compared with memory that the program may have written to since */
        return placed->row == row || !(placed->row[TYPE] & HELD) ||
               hash_at(placed) == hash_of(elements_of(blocks, row), row[NBYTES]);
    memcpy(&held, blocks[row[BLOCK]].start + row[START], sizeof held);
    return hash_at(placed) == held.hash;
}

/* Copy the elements of outputs to where `place` has placed them: equal ones follow the first. If the program has
   written to the first one, others take its place. Returns the number of bytes, or -1 without memory; sets the rows of
   the outputs whose elements are not there, and how many. */
static int64_t gather(Gathering *all, const Outputs *outputs, const int64_t *starts, char *to, int64_t most,
                      int64_t *changed, Py_ssize_t *many_changed) {
    const Block *blocks = outputs->blocks;
    const int64_t *row = outputs->rows, *shape = outputs->shapes;
    int64_t used = 0;
    *many_changed = 0;
    for (Py_ssize_t i = 0; i < outputs->many; shape += 2 * row[DIMENSIONS], row += PLACES, i++) {
        int64_t nbytes = row[NBYTES];
        int first = starts[i] == used && nbytes <= most - used, same = 0;
        Placed *placed = first ? all->placed + all->many : placed_at(all, starts[i]);
        if (first) {
            *placed = (Placed){.start = used};
            if (!copy_to(all, placed, blocks, row, shape, to + used)) return -1;
            all->many++;
            used += nbytes;
        }
        if (placed && placed->row[NBYTES] == nbytes) {
            same = is_same(placed, blocks, row);
            if (!same && !placed->used && !first) {
                if (!copy_to(all, placed, blocks, row, shape, to + placed->start)) return -1;
                same = is_same(placed, blocks, row);
            }
            placed->used |= same;
        }
        if (!same) changed[(*many_changed)++] = i;
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
"    The elements, a `Memory`. The rows, int64, of outputs whose elements are not there: they were held, and\n"
"    the program has written to them.\n");

static PyObject *py_gather(PyObject *module, PyObject *arguments) {
    PyObject *pieces, *elements = NULL, *both = NULL;
    Py_buffer rows, shapes, starts;
    long long nbytes;
    if (!PyArg_ParseTuple(arguments, "O!y*y*y*L", &PyTuple_Type, &pieces, &rows, &shapes, &starts, &nbytes))
        return NULL;
    Outputs outputs;
    int64_t all_bytes;
    Block *blocks = blocks_of(pieces, &rows, &shapes, &outputs, &all_bytes);
    size_t many = (size_t)outputs.many + 1;
    Gathering all = {.placed = blocks ? PyMem_Malloc(many * sizeof(Placed)) : NULL};
    int64_t *changed = blocks ? PyMem_Malloc(many * sizeof *changed) : NULL;
    if (blocks && (starts.len < 8 * outputs.many || nbytes < 0 || nbytes > all_bytes))
        PyErr_SetString(PyExc_ValueError, "these are no places of these outputs");
    else if (blocks && (!all.placed || !changed)) PyErr_NoMemory();
    else if (blocks && (elements = new_memory((Py_ssize_t)nbytes))) {
        Py_ssize_t size, many_changed;
        char *to = memory_of(elements, &size);
        int64_t used;
        Py_BEGIN_ALLOW_THREADS
        used = gather(&all, &outputs, starts.buf, to, nbytes, changed, &many_changed);
        Py_END_ALLOW_THREADS
        if (used < 0) PyErr_NoMemory();
        else {
            cut_memory(elements, (Py_ssize_t)used);
            both = Py_BuildValue("Oy#", elements, (const char *)changed, 8 * many_changed);
        }
    }
    free(all.turned);
    PyMem_Free(all.placed);
    PyMem_Free(changed);
    PyMem_Free(blocks);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&shapes);
    PyBuffer_Release(&starts);
    Py_XDECREF(elements);
    return both;
}

static PyMethodDef functions[] = {
    {"place_elements", py_place, METH_VARARGS, place_doc},
    {"gather_elements", py_gather, METH_VARARGS, gather_doc},
    {NULL, NULL, 0, NULL},
};

int add_elements(PyObject *module) { return PyModule_AddFunctions(module, functions); }
