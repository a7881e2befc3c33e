/* Places the elements of noted outputs one after the other, equal arrays once, and gathers them there. */
#include "elements.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "axes.h"
#include "memory.h"
#include "strided_copy.h"

#define PLACES 14  /* number of int64 per output, see `summarise_noted` */
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

/* Read eight bytes of turned elements, which are the ones from `place` on in C order. */
static void read_turned(char *to, const char *data, const Axes *axes, int64_t place) {
    for (Py_ssize_t done = 0; done < 8; done += axes->itemsize) {
        int64_t index = (place + done) / axes->itemsize, offset = 0;
        for (int axis = axes->dimensions - 1; axis >= 0; index /= axes->shape[axis--])
            offset += index % axes->shape[axis] * axes->strides[axis];
        memcpy(to + done, data + offset, (size_t)axes->itemsize);
    }
}

/* A hash of an array, computed from a sample of its words in C order. `axes`: those of turned elements, or
   NULL. */
static uint64_t mark_of(const char *data, int64_t nbytes, const Axes *axes) {
    uint64_t mark = (uint64_t)nbytes, word;
    int64_t last = nbytes - 8, step = last / (SAMPLES - 1) / 8 * 8;
    for (int i = 0; i < SAMPLES; i++) {
        int64_t at = i == SAMPLES - 1 ? last : i * step;
        if (axes) read_turned((char *)&word, data, axes, at);
        else memcpy(&word, data + at, 8);
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

/* Whether the elements of two outputs of the same size are the same in C order. `scratch` has room for them;
   two outputs that are turned differently count as different. */
static int same_elements(const char *data, const int64_t *row, const int64_t *shape, const Known *known,
                         char *scratch) {
    if (same_order(row, shape, known))
        return known->data == data || !memcmp(known->data, data, (size_t)known->nbytes);
    int turned = row[ORDER] == TURNED;
    if (!scratch || (turned && known->row[ORDER] == TURNED)) return 0;
    return (turned ? turn_back(scratch, data, row, shape)
                   : turn_back(scratch, known->data, known->row, known->shape)) &&
           !memcmp(scratch, turned ? known->data : data, (size_t)known->nbytes);
}

/* Place the elements of all outputs one after the other; returns the number of bytes used. `scratch`: room for
   the largest output that is turned, or NULL. */
static int64_t place(const Outputs *outputs, Known *known, uint64_t most, char *scratch, int64_t *starts) {
    const int64_t *row = outputs->rows, *shape = outputs->shapes;
    int64_t used = 0;
    for (Py_ssize_t i = 0; i < outputs->many; shape += 2 * row[DIMENSIONS], row += PLACES, i++) {
        const char *data = outputs->blocks[row[BLOCK]].start + row[START];
        int64_t nbytes = row[NBYTES];
        if (nbytes >= COMPARED) {
            Axes axes;
            int turned = row[ORDER] == TURNED && turned_axes(row, shape, &axes);
            uint64_t mark = mark_of(data, nbytes, turned ? &axes : NULL);
            Known *at = NULL;
            for (int tries = 0; tries < TRIES; tries++) {
                at = known + ((mark + (uint64_t)tries) & (most - 1));
                if (!at->nbytes) break;
                if (at->nbytes == nbytes && same_elements(data, row, shape, at, scratch)) {
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
    int64_t largest = 0; /* of those that are turned */
    while (most < 2 * (uint64_t)many) most *= 2;
    for (const int64_t *row = rows; row < rows + PLACES * many; row += PLACES)
        if (row[ORDER] == TURNED && row[NBYTES] > largest) largest = row[NBYTES];
    char *scratch = largest ? malloc((size_t)largest) : NULL;
    Known *known = calloc(most, sizeof(Known));
    int64_t used = known ? place(&outputs, known, most, scratch, starts) : -1;
    free(known);
    free(scratch);
    return used;
}

/* Copy the elements of outputs to where `place` has placed them: equal ones follow the first. */
static int64_t gather(const Outputs *outputs, const int64_t *starts, char *to, int64_t most) {
    const int64_t *row = outputs->rows, *shape = outputs->shapes;
    int64_t used = 0;
    for (Py_ssize_t i = 0; i < outputs->many; shape += 2 * row[DIMENSIONS], row += PLACES, i++) {
        const char *from = outputs->blocks[row[BLOCK]].start + row[START];
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
static Block *blocks_of(PyObject *triples, const Py_buffer *rows, const Py_buffer *shapes, Outputs *outputs,
                        int64_t *nbytes) {
    Py_ssize_t count = PyTuple_Size(triples), numbers = shapes->len / 8;
    Block *blocks = blocks_in(triples);
    const int64_t *row = rows->buf;
    *outputs = (Outputs){blocks, row, shapes->buf, rows->len / (8 * PLACES)};
    *nbytes = 0;
    for (Py_ssize_t i = 0; blocks && i < outputs->many; i++, row += PLACES) {
        int64_t axes = row[DIMENSIONS];
        numbers -= axes < 0 || axes > MOST_AXES ? numbers + 1 : 2 * (Py_ssize_t)axes;
        if (numbers < 0 || row[BLOCK] < 0 || row[BLOCK] >= count || row[NBYTES] < 1 ||
            row[START] < blocks[row[BLOCK]].begin || row[START] > blocks[row[BLOCK]].end ||
            row[NBYTES] > blocks[row[BLOCK]].end - row[START]) {
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
    PyObject *triples, *starts = NULL, *both = NULL;
    Py_buffer rows, shapes;
    if (!PyArg_ParseTuple(arguments, "O!y*y*", &PyTuple_Type, &triples, &rows, &shapes)) return NULL;
    Outputs outputs;
    int64_t nbytes, used = 0;
    Block *blocks = blocks_of(triples, &rows, &shapes, &outputs, &nbytes);
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
    PyObject *triples, *elements = NULL;
    Py_buffer rows, shapes, starts;
    long long nbytes;
    if (!PyArg_ParseTuple(arguments, "O!y*y*y*L", &PyTuple_Type, &triples, &rows, &shapes, &starts, &nbytes))
        return NULL;
    Outputs outputs;
    int64_t all;
    Block *blocks = blocks_of(triples, &rows, &shapes, &outputs, &all);
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

static PyMethodDef functions[] = {
    {"place_elements", py_place, METH_VARARGS, place_doc},
    {"gather_elements", py_gather, METH_VARARGS, gather_doc},
    {NULL, NULL, 0, NULL},
};

int add_elements(PyObject *module) { return PyModule_AddFunctions(module, functions); }
